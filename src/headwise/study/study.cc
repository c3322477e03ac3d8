// The list of studies: every claim about multi-head attention as a command.
