// Memory of mapped files that is not needed for now. (mapped_file.cc holds it.)
#pragma once

#include <cstddef>

namespace headwise {

// Gives the whole pages within [data, data + bytes) back to the system: they
// come from the file again when they are read. Memory that no MappedFile maps
// is left alone. Safe from any thread.
void ReleasePages(const void* data, size_t bytes);

}  // namespace headwise
