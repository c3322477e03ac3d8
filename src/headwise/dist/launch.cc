// Door: launch.h.
#include "headwise/dist/launch.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace headwise::dist {
namespace {

// Who sets which variables. A batch script of Slurm's has SLURM_NTASKS and runs
// once: only the steps of srun have SLURM_STEP_NUM_TASKS.
struct Variables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_size;
};
constexpr Variables kKnown[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE"},
};

std::optional<int> Number(const char* text) {
  if (text == nullptr) return {};
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end) return {};
  return value;
}

}  // namespace

Launch LaunchBy(const std::function<const char*(const char*)>& lookup) {
  for (const Variables& known : kKnown) {
    const std::optional<int> rank = Number(lookup(known.rank));
    const std::optional<int> size = Number(lookup(known.size));
    if (!rank || !size || *rank < 0 || *rank >= *size) continue;
    Launch launch = {*rank, *size, *size, known.launcher};
    const std::optional<int> local = Number(lookup(known.local_size));
    if (local && *local >= 1 && *local <= *size) launch.local_size = *local;
    return launch;
  }
  return {};
}

}  // namespace headwise::dist

namespace headwise {

Launch FindLaunch() {
  return dist::LaunchBy([](const char* name) { return std::getenv(name); });
}

}  // namespace headwise
