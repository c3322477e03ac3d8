// Hashing checkpoints. Door: model_hash.h.
#include "headwise/model/model_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <map>
#include <memory>

#include "headwise/base/release_pages.h"
#include "headwise/format/safetensors.h"
#include "headwise/tensor/encoding.h"

namespace headwise {
namespace {

using Tensors = std::map<std::string, ConstTensorView, std::less<>>;

struct StateFree {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// Numbers go in as little-endian bytes, so that the hash is the same anywhere.
void AddNumber(XXH3_state_t* state, uint64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = (value >> (8 * i)) & 0xff;
  XXH3_128bits_update(state, bytes, sizeof(bytes));
}

// As safetensors has it; our own name of what that does not have.
const char* TypeNameOf(DType type) {
  return IsSafetensorsType(type) ? SafetensorsName(type) : Name(type);
}

std::string HashTensors(const Tensors& tensors, bool mapped) {
  const std::unique_ptr<XXH3_state_t, StateFree> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  AddNumber(state.get(), tensors.size());
  for (const auto& [name, view] : tensors) {
    AddNumber(state.get(), name.size());
    XXH3_128bits_update(state.get(), name.data(), name.size());
    const std::string type = TypeNameOf(view.type);
    XXH3_128bits_update(state.get(), type.data(), type.size());
    AddNumber(state.get(), static_cast<uint64_t>(view.rank));
    for (int i = 0; i < view.rank; ++i) {
      AddNumber(state.get(), static_cast<uint64_t>(view.shape[i]));
    }
    const auto bytes = static_cast<uint64_t>(BytesOf(view));
    if (bytes == 0) continue;
    XXH3_128bits_update(state.get(), view.data, bytes);
    if (mapped) ReleasePages(view.data, bytes);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string ModelHash(const WeightSource& weights) {
  Tensors tensors;
  for (const std::string& name : weights.Names()) {
    tensors.emplace(name, weights.Find(name));
  }
  return HashTensors(tensors, weights.Mapped());
}

std::string ModelHash(const std::filesystem::path& folder) {
  return HashTensors(Safetensors::Open(folder).tensors(), true);
}

}  // namespace headwise
