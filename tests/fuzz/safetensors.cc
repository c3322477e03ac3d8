// Any bytes as a safetensors file: either an Error, or tensors whose every
// byte lies within the file.
#include "headwise/format/safetensors.h"

#include <cstdint>

#include "headwise/error.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  volatile uint8_t last = 0;
  try {
    const auto tensors = headwise::Safetensors::Open(file.path());
    for (const auto& [name, view] : tensors.tensors()) {
      const auto bytes =
          static_cast<size_t>(headwise::BytesOf(view.type, view.size()));
      const uint8_t* stored = view.Raw<uint8_t>();
      const uint8_t* aligned = tensors.At(name).Raw<uint8_t>();
      for (size_t i = 0; i < bytes; ++i) last = stored[i] ^ aligned[i];
    }
  } catch (const headwise::Error&) {
  }
  return last & 0;
}
