// The run of one rank as fields, by which ranks of different runs are refused.
#pragma once

#include <vector>

#include "command.h"
#include "headwise/work_group.h"

namespace headwise {

// The program, the command, and every flag that was given; of flags that name
// what is read, what the files hold. What follows from a command's own files,
// such as a run's configuration, is compared where it is read.
std::vector<RunField> DescribeRun(const Command& command, const CLI::App& app);

}  // namespace headwise
