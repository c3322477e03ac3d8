// Door: library.h.
#include "headwise/dist/mpi/library.h"

#include <dlfcn.h>

#include <string>

#include "headwise/error.h"

namespace headwise::dist {
namespace {

constexpr const char* kName = "libmpi.so.40";

[[noreturn]] void Refuse(const char* why) {
  throw Error(ErrorCode::kUnsupported,
              {"ranks", std::string("OpenMPI's ") + kName,
               why != nullptr ? why : "none", "install openmpi-bin"});
}

}  // namespace

MpiLibrary MpiLibrary::Load() {
  // Its own parts, which it loads in turn, look for names of the whole.
  void* handle = dlopen(kName, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) Refuse(dlerror());
  MpiLibrary library;
  const auto find = [&](auto& place, const char* name) {
    void* found = dlsym(handle, name);
    if (found == nullptr) Refuse(dlerror());
    place = reinterpret_cast<std::remove_reference_t<decltype(place)>>(found);
  };
  find(library.init_thread, "MPI_Init_thread");
  find(library.finalize, "MPI_Finalize");
  find(library.abort, "MPI_Abort");
  find(library.comm_rank, "MPI_Comm_rank");
  find(library.comm_size, "MPI_Comm_size");
  find(library.set_errhandler, "MPI_Comm_set_errhandler");
  find(library.error_string, "MPI_Error_string");
  find(library.isend, "MPI_Isend");
  find(library.irecv, "MPI_Irecv");
  find(library.improbe, "MPI_Improbe");
  find(library.imrecv, "MPI_Imrecv");
  find(library.test, "MPI_Test");
  find(library.world, "ompi_mpi_comm_world");
  find(library.byte, "ompi_mpi_byte");
  find(library.errors_return, "ompi_mpi_errors_return");
  return library;
}

}  // namespace headwise::dist
