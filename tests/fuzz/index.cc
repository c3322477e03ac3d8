// Any bytes as a model.safetensors.index.json beside two real shards: either
// an Error, or tensors whose every byte lies within them.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "headwise/base/atomic_file.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"

namespace {

namespace fs = std::filesystem;

// Two shards of one tensor each: "a" and "b".
fs::path MakeFolder() {
  std::string name = "/dev/shm/headwise.XXXXXX";
  if (mkdtemp(name.data()) == nullptr) abort();
  const float numbers[] = {1, 2, 3, 4};
  for (const char* tensor : {"a", "b"}) {
    headwise::WriteSafetensors(
        fs::path(name) / (std::string(tensor) + ".safetensors"),
        {{tensor,
          headwise::ConstTensorView(numbers, headwise::DType::kF32, {4})}},
        {});
  }
  return name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fs::path folder = MakeFolder();
  headwise::WriteFileAtomically(
      folder / "model.safetensors.index.json",
      std::string_view(reinterpret_cast<const char*>(data), size));
  volatile uint8_t last = 0;
  try {
    const auto tensors = headwise::Safetensors::Open(folder);
    for (const auto& [name, view] : tensors.tensors()) {
      for (int i = 0; i < 16; ++i) last = view.Raw<uint8_t>()[i];
    }
  } catch (const headwise::Error&) {
  }
  return last & 0;
}
