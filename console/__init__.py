"""The operator's command, `trimtab`."""
