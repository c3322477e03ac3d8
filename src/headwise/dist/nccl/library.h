// NCCL's library, loaded when it is first asked for: it is a third of a
// gigabyte, and nothing but sums between GPUs needs it.
#pragma once

#include <nccl.h>

namespace headwise::dist {

struct NcclLibrary {
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRank) comm_init_rank = nullptr;
  decltype(&::ncclCommDestroy) comm_destroy = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclGetErrorString) error_string = nullptr;

  // Throws Error(kUnsupported) where it is not there.
  static NcclLibrary Load();
};

}  // namespace headwise::dist
