// OpenMPI's library, loaded when it is first asked for: neither the program nor
// libheadwise needs it to start. Compiled against its header for the types.
#pragma once

// Its C++ classes would have to be linked.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace headwise::dist {

struct MpiLibrary {
  decltype(&::MPI_Init_thread) init_thread = nullptr;
  decltype(&::MPI_Finalize) finalize = nullptr;
  decltype(&::MPI_Abort) abort = nullptr;
  decltype(&::MPI_Comm_rank) comm_rank = nullptr;
  decltype(&::MPI_Comm_size) comm_size = nullptr;
  decltype(&::MPI_Comm_set_errhandler) set_errhandler = nullptr;
  decltype(&::MPI_Error_string) error_string = nullptr;
  decltype(&::MPI_Isend) isend = nullptr;
  decltype(&::MPI_Irecv) irecv = nullptr;
  decltype(&::MPI_Improbe) improbe = nullptr;
  decltype(&::MPI_Imrecv) imrecv = nullptr;
  decltype(&::MPI_Test) test = nullptr;
  // What the header's names are the addresses of.
  MPI_Comm world = nullptr;
  MPI_Datatype byte = nullptr;
  MPI_Errhandler errors_return = nullptr;

  // Throws Error(kUnsupported) where it is not there.
  static MpiLibrary Load();
};

}  // namespace headwise::dist
