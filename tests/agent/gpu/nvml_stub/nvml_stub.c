/*
 * A libnvidia-ml.so.1 of our own, so that pynvml and the GPU probe can be tested
 * where there is no GPU. It proves our handling, never the driver.
 *
 * State is a text file of lines "KEY VALUE", named by NVML_STUB_CONTROL and read
 * at every call, so a running agent's GPUs change under the test. A later line
 * beats an earlier one. Each call is logged as "PID TID FUNCTION" in the file
 * named by NVML_STUB_CALLS.
 *
 *   count N            GPUs (1)             root 1|0       privileged user (1)
 *   err.FUNC[.G] CODE  the call fails       hang.FUNC[.G] 1  it sleeps while set
 *   segv.FUNC[.G] 1    it crashes           fault.G CODE   every call to GPU G fails
 *   xids G:CODE ...    events, each told once; those there at creation are past
 *   G.uuid .name .total .used .reserved .busy .power .limit .temperature
 *   G.clock .max_clock .reasons .sm .occupancy .tensor .dram (percent)
 *   G.gpm 1|0          G.v2 excludes|includes|broken (how v2 memory adds up)
 *   G.field.ID VALUE   absent: unsupported  G.remap CORR UNC PENDING FAILED
 *   G.processes PID:BYTES ...               G.mig 1|0
 *   G.instances PROFILE:START:USED_BYTES ...  PROFILE is the index in `profiles`
 *
 * Struct layouts are written from what the documentation says they hold; a test
 * compares their sizes with those of the binding. -DOLD_DRIVER leaves out what
 * drivers before 510 lacked.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;

enum {
  SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3,
  NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10,
  VERSION_MISMATCH = 25
};
enum { GPUS = 32, INSTANCES = 8, WHOLE = -1 };

struct device { u32 magic; u32 generation; int gpu; int part; };
struct gpu_instance { u32 magic; u32 generation; int gpu; int number; };
struct sample { u32 magic; int gpu; u64 taken_ns; };

struct memory { u64 total, free, used; };
struct memory_v2 { u32 version; u64 total, reserved, free, used; };
struct utilization { u32 gpu, memory; };
struct pci { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; };
struct process { u32 pid; u64 used; u32 gpu_instance, compute_instance; };
struct process_sample { u32 pid; u64 stamp; u32 sm, mem, enc, dec; };
union value { double d; u32 u; unsigned long ul; u64 ull; long long ll; int i; unsigned short us; };
struct field { u32 id, scope; long long stamp, latency; u32 type, ret; union value value; };
struct placement { u32 start, size; };
struct profile_info {
  u32 version, id, p2p, slices, instances, multiprocessors, copy, decoder, encoder,
      jpeg, ofa;
  u64 memory_mb;
  char name[96];
};
struct instance_info { struct device *device; u32 id, profile; struct placement place; };
struct attributes {
  u32 multiprocessors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices;
  u64 memory_mb;
};
struct event { struct device *device; u64 type, data; u32 gpu_instance, compute_instance; };
struct metric { u32 id, ret; double value; const char *names[3]; };
struct metrics { u32 version, count; struct sample *before, *after; struct metric metrics[]; };
struct gpm_support { u32 version, supported; };

static const struct profile { u32 id, slices, count, size, starts[8]; } profiles[] = {
  {19, 1, 7, 1, {0, 1, 2, 3, 4, 5, 6}}, {14, 2, 3, 2, {0, 2, 4}},
  {9, 3, 2, 4, {0, 4}}, {5, 4, 1, 4, {0}}, {0, 7, 1, 8, {0}},
};
enum { PROFILES = sizeof profiles / sizeof *profiles };
static const u32 DEVICE = 0xdec1ce, GI = 0x61;

static u32 references, generation;
static int told; /* events so far */
static int registered[GPUS];

u64 stub_sizeof(const char *what) {
  static const struct { const char *name; u64 size; } sizes[] = {
    {"c_nvmlMemory_t", sizeof(struct memory)},
    {"c_nvmlMemory_v2_t", sizeof(struct memory_v2)},
    {"c_nvmlUtilization_t", sizeof(struct utilization)},
    {"nvmlPciInfo_t", sizeof(struct pci)},
    {"c_nvmlProcessInfo_v2_t", sizeof(struct process)},
    {"c_nvmlProcessUtilizationSample_t", sizeof(struct process_sample)},
    {"c_nvmlFieldValue_t", sizeof(struct field)},
    {"c_nvmlGpuInstancePlacement_t", sizeof(struct placement)},
    {"c_nvmlGpuInstanceProfileInfo_v2_t", sizeof(struct profile_info)},
    {"c_nvmlGpuInstanceInfo_t", sizeof(struct instance_info)},
    {"c_nvmlDeviceAttributes", sizeof(struct attributes)},
    {"c_nvmlEventData_t", sizeof(struct event)},
    {"c_nvmlGpmMetric_t", sizeof(struct metric)},
    {"c_nvmlGpmSupport_t", sizeof(struct gpm_support)},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (!strcmp(sizes[i].name, what)) return sizes[i].size;
  return 0;
}

static int lookup(char *out, size_t size, const char *key) {
  const char *path = getenv("NVML_STUB_CONTROL");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[1024];
  size_t length = strlen(key);
  int found = 0;
  if (!file) return 0;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, key, length) && line[length] == ' ') {
      snprintf(out, size, "%s", line + length + 1);
      found = 1;
    }
  }
  fclose(file);
  return found;
}

static int text(char *out, size_t size, const char *format, ...) {
  char key[256];
  va_list args;
  va_start(args, format);
  vsnprintf(key, sizeof key, format, args);
  va_end(args);
  return lookup(out, size, key);
}

static long long number(int gpu, const char *key, long long otherwise) {
  char value[64];
  return text(value, sizeof value, "%d.%s", gpu, key) ? atoll(value) : otherwise;
}

static long long global(const char *key, long long otherwise) {
  char value[64];
  return lookup(value, sizeof value, key) ? atoll(value) : otherwise;
}

static long long rule(const char *kind, const char *function, int gpu) {
  char value[64];
  if (gpu >= 0 && text(value, sizeof value, "%s.%s.%d", kind, function, gpu))
    return atoll(value);
  return text(value, sizeof value, "%s.%s", kind, function) ? atoll(value) : 0;
}

static void sleep_ms(u32 ms) {
  struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
  nanosleep(&pause, NULL);
}

static void record(const char *function) {
  const char *path = getenv("NVML_STUB_CALLS");
  int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;
  if (file < 0) return;
  dprintf(file, "%d %ld %s\n", getpid(), syscall(SYS_gettid), function);
  close(file);
}

/* What every function does first; its result is not SUCCESS where that is all. */
static int enter(const char *function, int gpu) {
  char key[32];
  record(function);
  while (rule("hang", function, gpu)) sleep_ms(10);
  if (rule("segv", function, gpu)) raise(SIGSEGV);
  int code = (int)rule("err", function, gpu);
  if (code) return code;
  if (!references && strcmp(function, "nvmlInitWithFlags")) return UNINITIALIZED;
  if (gpu < 0) return SUCCESS;
  snprintf(key, sizeof key, "fault.%d", gpu);
  return (int)global(key, SUCCESS);
}

static struct device *device(int gpu, int part) {
  static struct device held[64][GPUS][INSTANCES + 1]; /* by generation: kept valid */
  struct device *d = &held[generation % 64][gpu][part + 1];
  *d = (struct device){DEVICE, generation, gpu, part};
  return d;
}

static int valid(const struct device *d) {
  return d && d->magic == DEVICE && d->generation == generation && references;
}

#define ENTER() do { int code_ = enter(__func__, -1); if (code_) return code_; } while (0)
#define ENTER_DEVICE(d) do { \
    if (!valid(d)) { record(__func__); return references ? INVALID_ARGUMENT : UNINITIALIZED; } \
    int code_ = enter(__func__, (d)->gpu); if (code_) return code_; } while (0)
#define WHOLE_ONLY(d) do { if ((d)->part != WHOLE) return NOT_SUPPORTED; } while (0)
#define ROOT_ONLY() do { if (!global("root", 1)) return NO_PERMISSION; } while (0)

struct part { int profile; u32 start; u64 used; };

static int parts(int gpu, struct part *out) {
  char list[512], *rest, *word;
  int count = 0;
  if (!number(gpu, "mig", 0) || !text(list, sizeof list, "%d.instances", gpu)) return 0;
  for (word = strtok_r(list, " ", &rest); word && count < INSTANCES;
       word = strtok_r(NULL, " ", &rest)) {
    struct part p = {0};
    if (sscanf(word, "%d:%u:%llu", &p.profile, &p.start, &p.used) >= 2) out[count++] = p;
  }
  return count;
}

static const struct profile *profile_of(u32 id) {
  for (int i = 0; i < PROFILES; i++)
    if (profiles[i].id == id) return &profiles[i];
  return NULL;
}

int nvmlInitWithFlags(u32 flags) {
  (void)flags;
  ENTER();
  if (!references++) generation++;
  return SUCCESS;
}

int nvmlShutdown(void) {
  ENTER();
  references--;
  return SUCCESS;
}

const char *nvmlErrorString(int code) {
  (void)code;
  return "an error of the stub";
}

int nvmlSystemGetDriverVersion(char *out, u32 size) {
  ENTER();
  if (!text(out, size, "driver")) snprintf(out, size, "580.0.stub");
  return SUCCESS;
}

int nvmlDeviceGetCount_v2(u32 *count) {
  ENTER();
  *count = (u32)global("count", 1);
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, struct device **out) {
  int code = enter(__func__, (int)index);
  if (code) return code;
  if (index >= global("count", 1)) return INVALID_ARGUMENT;
  *out = device((int)index, WHOLE);
  return SUCCESS;
}

static void uuid_of(int gpu, int part, char *out, size_t size) {
  struct part held[INSTANCES];
  if (part == WHOLE) {
    if (!text(out, size, "%d.uuid", gpu)) snprintf(out, size, "GPU-stub-%d", gpu);
  } else if (part < parts(gpu, held)) {
    snprintf(out, size, "MIG-stub-%d-%d-%u", gpu, held[part].profile, held[part].start);
  }
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) {
  char own[96];
  ENTER();
  for (int gpu = 0; gpu < global("count", 1); gpu++) {
    uuid_of(gpu, WHOLE, own, sizeof own);
    if (!strcmp(own, uuid)) {
      *out = device(gpu, WHOLE);
      return SUCCESS;
    }
  }
  return NOT_FOUND;
}

int nvmlDeviceGetName(struct device *d, char *out, u32 size) {
  ENTER_DEVICE(d);
  if (!text(out, size, "%d.name", d->gpu)) snprintf(out, size, "Stub H200");
  return SUCCESS;
}

int nvmlDeviceGetUUID(struct device *d, char *out, u32 size) {
  ENTER_DEVICE(d);
  uuid_of(d->gpu, d->part, out, size);
  return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci *out) {
  ENTER_DEVICE(d);
  memset(out, 0, sizeof *out);
  out->bus = (u32)d->gpu + 1;
  snprintf(out->legacy, sizeof out->legacy, "0000:%02x:00.0", out->bus);
  snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
  return SUCCESS;
}

static struct memory_v2 memory_of(const struct device *d) {
  struct memory_v2 m = {0};
  m.total = (u64)number(d->gpu, "total", 150754820096);
  m.used = (u64)number(d->gpu, "used", 1073741824);
  m.reserved = (u64)number(d->gpu, "reserved", 524288000);
  if (d->part != WHOLE) {
    struct part held[INSTANCES];
    if (d->part < parts(d->gpu, held)) {
      m.total = m.total / 8 * profiles[held[d->part].profile].size;
      m.used = held[d->part].used;
      m.reserved = 0;
    }
  }
  m.free = m.total - m.reserved - m.used;
  return m;
}

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *out) {
  ENTER_DEVICE(d);
  struct memory_v2 m = memory_of(d);
  *out = (struct memory){m.total, m.free, m.used + m.reserved};
  return SUCCESS;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryInfo_v2(struct device *d, struct memory_v2 *out) {
  char variant[16] = "excludes";
  ENTER_DEVICE(d);
  if (out->version != 0x02000028) return VERSION_MISMATCH;
  *out = memory_of(d);
  out->version = 0x02000028;
  text(variant, sizeof variant, "%d.v2", d->gpu);
  if (!strcmp(variant, "includes")) out->used += out->reserved;
  if (!strcmp(variant, "broken")) out->used = out->total / 2;
  return SUCCESS;
}
#endif

int nvmlDeviceGetUtilizationRates(struct device *d, struct utilization *out) {
  ENTER_DEVICE(d);
  WHOLE_ONLY(d);
  if (number(d->gpu, "mig", 0)) return NOT_SUPPORTED;
  *out = (struct utilization){(u32)number(d->gpu, "busy", 0), 0};
  return SUCCESS;
}

#ifndef OLD_DRIVER
static int processes(struct device *d, u32 *count, struct process *out) {
  char list[512], *rest, *word;
  u32 room = *count;
  *count = 0;
  if (!text(list, sizeof list, "%d.processes", d->gpu)) return SUCCESS;
  for (word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    struct process p = {0};
    long long used = 0;
    sscanf(word, "%u:%lld", &p.pid, &used);
    p.used = (u64)used;
    p.gpu_instance = p.compute_instance = (u32)-1;
    if (out && *count < room) out[*count] = p;
    ++*count;
  }
  return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, u32 *n, struct process *out) {
  ENTER_DEVICE(d);
  return processes(d, n, out);
}
#endif

int nvmlDeviceGetProcessUtilization(struct device *d, struct process_sample *out, u32 *n,
                                    u64 since) {
  (void)out, (void)since;
  ENTER_DEVICE(d);
  *n = 0;
  return SUCCESS; /* which pynvml raises as NVMLError(0) */
}

int nvmlDeviceGetPowerUsage(struct device *d, u32 *out) {
  ENTER_DEVICE(d);
  *out = (u32)number(d->gpu, "power", 70000);
  return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(struct device *d, u32 *out) {
  ENTER_DEVICE(d);
  *out = (u32)number(d->gpu, "limit", 700000);
  return SUCCESS;
}

int nvmlDeviceGetClockInfo(struct device *d, u32 which, u32 *out) {
  (void)which;
  ENTER_DEVICE(d);
  *out = (u32)number(d->gpu, "clock", 1980);
  return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(struct device *d, u32 which, u32 *out) {
  (void)which;
  ENTER_DEVICE(d);
  *out = (u32)number(d->gpu, "max_clock", 1980);
  return SUCCESS;
}

int nvmlDeviceGetTemperature(struct device *d, u32 sensor, u32 *out) {
  (void)sensor;
  ENTER_DEVICE(d);
  *out = (u32)number(d->gpu, "temperature", 35);
  return SUCCESS;
}

#ifdef OLD_DRIVER
int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, u64 *out) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(struct device *d, u64 *out) {
#endif
  ENTER_DEVICE(d);
  *out = (u64)number(d->gpu, "reasons", 1);
  return SUCCESS;
}

int nvmlDeviceGetFieldValues(struct device *d, int count, struct field *fields) {
  ENTER_DEVICE(d);
  for (int i = 0; i < count; i++) {
    char value[64];
    fields[i].ret = NOT_SUPPORTED;
    if (!text(value, sizeof value, "%d.field.%u", d->gpu, fields[i].id)) continue;
    fields[i].ret = SUCCESS;
    fields[i].type = 3; /* unsigned long long */
    fields[i].value.ull = strtoull(value, NULL, 10);
  }
  return SUCCESS;
}

int nvmlDeviceGetRemappedRows(struct device *d, u32 *corrected, u32 *uncorrected,
                              u32 *pending, u32 *failed) {
  char value[64];
  ENTER_DEVICE(d);
  if (!text(value, sizeof value, "%d.remap", d->gpu)) return NOT_SUPPORTED;
  sscanf(value, "%u %u %u %u", corrected, uncorrected, pending, failed);
  return SUCCESS;
}

int nvmlDeviceGetMigMode(struct device *d, u32 *current, u32 *pending) {
  ENTER_DEVICE(d);
  WHOLE_ONLY(d);
  *current = *pending = (u32)number(d->gpu, "mig", 0);
  return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *d, u32 *out) {
  ENTER_DEVICE(d);
  *out = 7;
  return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, u32 index, struct device **out) {
  struct part held[INSTANCES];
  ENTER_DEVICE(d);
  if ((int)index >= parts(d->gpu, held)) return NOT_FOUND;
  *out = device(d->gpu, (int)index);
  return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(struct device *d, u32 *out) {
  ENTER_DEVICE(d);
  if (d->part == WHOLE) return NOT_SUPPORTED;
  *out = (u32)d->part + 1;
  return SUCCESS;
}

int nvmlDeviceGetAttributes_v2(struct device *d, struct attributes *out) {
  struct part held[INSTANCES];
  ENTER_DEVICE(d);
  if (d->part == WHOLE || d->part >= parts(d->gpu, held)) return NOT_SUPPORTED;
  memset(out, 0, sizeof *out);
  out->gpu_slices = out->compute_slices = profiles[held[d->part].profile].slices;
  return SUCCESS;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(struct device *d, u32 which,
                                         struct profile_info *out) {
  ENTER_DEVICE(d);
  if (out->version != 0x02000098) return VERSION_MISMATCH;
  if (which >= PROFILES) return NOT_SUPPORTED;
  memset(out, 0, sizeof *out);
  out->version = 0x02000098;
  out->id = profiles[which].id;
  out->slices = profiles[which].slices;
  out->instances = profiles[which].count;
  return SUCCESS;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(struct device *d, u32 id,
                                                  struct placement *out, u32 *count) {
  const struct profile *p = profile_of(id);
  ENTER_DEVICE(d);
  ROOT_ONLY();
  if (!p) return INVALID_ARGUMENT;
  if (out && *count < p->count) return INSUFFICIENT_SIZE;
  *count = p->count;
  for (u32 i = 0; out && i < p->count; i++)
    out[i] = (struct placement){p->starts[i], p->size};
  return SUCCESS;
}

static int overlaps(const struct part *held, int count, u32 start, u32 size) {
  for (int i = 0; i < count; i++) {
    u32 other = profiles[held[i].profile].size;
    if (start < held[i].start + other && held[i].start < start + size) return 1;
  }
  return 0;
}

int nvmlDeviceGetGpuInstanceRemainingCapacity(struct device *d, u32 id, u32 *out) {
  const struct profile *p = profile_of(id);
  struct part held[INSTANCES];
  ENTER_DEVICE(d);
  ROOT_ONLY();
  if (!number(d->gpu, "mig", 0)) return NOT_SUPPORTED;
  if (!p) return INVALID_ARGUMENT;
  int count = parts(d->gpu, held);
  *out = 0;
  for (u32 i = 0; i < p->count; i++)
    *out += !overlaps(held, count, p->starts[i], p->size);
  return SUCCESS;
}

int nvmlDeviceGetGpuInstances(struct device *d, u32 id, struct gpu_instance **out,
                              u32 *count) {
  static struct gpu_instance given[GPUS][INSTANCES];
  struct part held[INSTANCES];
  ENTER_DEVICE(d);
  ROOT_ONLY();
  if (!profile_of(id)) return INVALID_ARGUMENT;
  int all = parts(d->gpu, held);
  *count = 0;
  for (int i = 0; i < all; i++) {
    if (profiles[held[i].profile].id != id) continue;
    given[d->gpu][i] = (struct gpu_instance){GI, generation, d->gpu, i};
    out[(*count)++] = &given[d->gpu][i];
  }
  return SUCCESS;
}

int nvmlGpuInstanceGetInfo(struct gpu_instance *gi, struct instance_info *out) {
  struct part held[INSTANCES];
  ENTER();
  if (!gi || gi->magic != GI || gi->generation != generation) return INVALID_ARGUMENT;
  if (gi->number >= parts(gi->gpu, held)) return NOT_FOUND;
  const struct profile *p = &profiles[held[gi->number].profile];
  *out = (struct instance_info){device(gi->gpu, WHOLE), (u32)gi->number + 1, p->id,
                                {held[gi->number].start, p->size}};
  return SUCCESS;
}

static int event_number(int wanted, int *gpu, u64 *xid) {
  char list[512], *rest, *word;
  int count = 0;
  if (!lookup(list, sizeof list, "xids")) return 0;
  for (word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (count++ == wanted) sscanf(word, "%d:%llu", gpu, xid);
  }
  return count;
}

int nvmlEventSetCreate(void **out) {
  static int set;
  int gpu;
  u64 xid;
  ENTER();
  told = event_number(-1, &gpu, &xid);
  *out = &set;
  return SUCCESS;
}

int nvmlDeviceRegisterEvents(struct device *d, u64 types, void *set) {
  ENTER_DEVICE(d);
  if (!(types & 8) || !set) return INVALID_ARGUMENT;
  registered[d->gpu] = 1;
  return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, struct event *out, u32 timeout_ms) {
  int gpu = -1;
  u64 xid = 0;
  ENTER();
  if (!set) return INVALID_ARGUMENT;
  while (event_number(told, &gpu, &xid) > told) {
    told++;
    if (gpu < 0 || gpu >= GPUS || !registered[gpu]) continue;
    *out = (struct event){device(gpu, WHOLE), 8, xid, (u32)-1, (u32)-1};
    return SUCCESS;
  }
  sleep_ms(timeout_ms);
  return TIMEOUT;
}

int nvmlEventSetFree(void *set) {
  (void)set;
  ENTER();
  return SUCCESS;
}

#ifndef OLD_DRIVER
static const u32 SAMPLE = 0x5a;

int nvmlGpmQueryDeviceSupport(struct device *d, struct gpm_support *out) {
  ENTER_DEVICE(d);
  if (out->version != 1) return VERSION_MISMATCH;
  out->supported = (u32)number(d->gpu, "gpm", 1);
  return SUCCESS;
}

int nvmlGpmSampleAlloc(struct sample **out) {
  ENTER();
  *out = calloc(1, sizeof **out);
  (*out)->magic = SAMPLE;
  return SUCCESS;
}

int nvmlGpmSampleFree(struct sample *s) {
  ENTER();
  if (!s || s->magic != SAMPLE) return INVALID_ARGUMENT;
  s->magic = 0;
  free(s);
  return SUCCESS;
}

static int take(struct device *d, struct sample *s) {
  struct timespec now;
  if (!s || s->magic != SAMPLE) return INVALID_ARGUMENT;
  clock_gettime(CLOCK_MONOTONIC, &now);
  s->gpu = d->gpu;
  s->taken_ns = (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
  return SUCCESS;
}

int nvmlGpmSampleGet(struct device *d, struct sample *s) {
  ENTER_DEVICE(d);
  return take(d, s);
}

int nvmlGpmMigSampleGet(struct device *d, u32 instance, struct sample *s) {
  struct part held[INSTANCES];
  ENTER_DEVICE(d);
  if (instance < 1 || (int)instance > parts(d->gpu, held)) return INVALID_ARGUMENT;
  return take(d, s);
}

int nvmlGpmMetricsGet(struct metrics *m) {
  static const struct { u32 id; const char *key; } known[] = {
    {2, "sm"}, {3, "occupancy"}, {5, "tensor"}, {10, "dram"},
  };
  ENTER();
  if (m->version != 1 || !m->before || !m->after) return INVALID_ARGUMENT;
  /* 100 ms apart, and the right way round, or there is nothing to say. */
  if (m->after->taken_ns < m->before->taken_ns + 100000000) {
    record("too-close");
    return INVALID_ARGUMENT;
  }
  for (u32 i = 0; i < m->count; i++) {
    m->metrics[i].ret = NOT_SUPPORTED;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
      char value[64];
      if (m->metrics[i].id != known[k].id) continue;
      if (!text(value, sizeof value, "%d.%s", m->after->gpu, known[k].key)) continue;
      m->metrics[i].ret = SUCCESS;
      m->metrics[i].value = strtod(value, NULL);
    }
  }
  return SUCCESS;
}
#endif
