// Door: library.h.
#include "headwise/dist/nccl/library.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "headwise/error.h"

#ifndef HEADWISE_NCCL_LIBRARY
#define HEADWISE_NCCL_LIBRARY "libnccl.so"
#endif

namespace headwise::dist {
namespace {

constexpr const char* kName = "libnccl.so.2";

[[noreturn]] void Refuse(const char* why) {
  throw Error(
      ErrorCode::kUnsupported,
      {"ranks", std::string("NCCL's ") + kName, why != nullptr ? why : "none",
       "install NCCL, or let ranks add up in a tree"});
}

// Where the build found it (CMakeLists.txt), else where the system looks.
void* OpenLibrary() {
  for (const char* place : {HEADWISE_NCCL_LIBRARY, kName}) {
    if (void* library = dlopen(place, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  Refuse(dlerror());
}

}  // namespace

NcclLibrary NcclLibrary::Load() {
  void* handle = OpenLibrary();
  NcclLibrary library;
  const auto find = [&](auto& place, const char* name) {
    void* found = dlsym(handle, name);
    if (found == nullptr) Refuse(dlerror());
    place = reinterpret_cast<std::remove_reference_t<decltype(place)>>(found);
  };
  find(library.get_unique_id, "ncclGetUniqueId");
  find(library.comm_init_rank, "ncclCommInitRank");
  find(library.comm_destroy, "ncclCommDestroy");
  find(library.all_reduce, "ncclAllReduce");
  find(library.error_string, "ncclGetErrorString");
  return library;
}

}  // namespace headwise::dist
