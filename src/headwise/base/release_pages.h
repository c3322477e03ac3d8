// Memory of mapped files that is not needed for now.
#pragma once

#include <cstddef>

namespace headwise {

// Gives the whole pages within [data, data + bytes), all of one MappedFile,
// back to the system: they come from the file again when they are read. (Other
// memory would lose what it holds.) Safe from any thread.
void ReleasePages(const void* data, size_t bytes);

}  // namespace headwise
