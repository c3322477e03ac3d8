// What a launcher of many processes (mpirun, srun) says of this one.
#pragma once

#include <functional>
#include <string>

namespace headwise::dist {

struct Launch {
  int rank = 0;
  int size = 1;
  int local_size = 1;         // processes on this machine
  std::string launcher = {};  // "mpirun"; empty: none

  friend bool operator==(const Launch&, const Launch&) = default;
};

// By the variables of OpenMPI, of PMI (MPICH, Slurm) and of Slurm's steps. One
// process, where none of them makes sense. `lookup` gives a variable's text or
// null, as getenv does.
Launch FindLaunch(const std::function<const char*(const char*)>& lookup);
Launch FindLaunch();

}  // namespace headwise::dist
