// Any bytes as a checkpoint of PyTorch's: either an Error, or tensors whose
// every byte lies within the file.
#include <cstdint>

#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/format/torch_file.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  volatile uint8_t last = 0;
  try {
    const headwise::MappedFile mapped(file.path());
    for (const auto& [name, view] : headwise::ReadTorchFile(mapped, "torch")) {
      const auto bytes =
          static_cast<size_t>(headwise::BytesOf(view.type, view.size()));
      const auto* stored = static_cast<const uint8_t*>(view.data);
      for (size_t i = 0; i < bytes; ++i) last = stored[i];
    }
  } catch (const headwise::Error&) {
  }
  return last & 0;
}
