// Checkpoints whose tensors begin at odd bytes, as old writers left them: the
// same numbers, and nothing is copied before it is used.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/mapped_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/unaligned.h"

namespace headwise::unaligned_test {
namespace {

namespace fs = std::filesystem;

class UnalignedModels : public ScratchFolderTest {
 protected:
  void Copy(const char* family) {
    const fs::path from = fs::path(HEADWISE_SOURCE) / "tests" / "conformance" /
                          "goldens" / family;
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(from / name, folder_ / name,
                    fs::copy_options::overwrite_existing);
    }
  }
  // A longer header moves all tensors by one byte.
  void Shift() {
    const fs::path path = folder_ / "model.safetensors";
    std::string bytes(MappedFile(path).text());
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes.insert(8 + length, 1, ' ');
    ++length;
    std::memcpy(bytes.data(), &length, sizeof(length));
    WriteFileAtomically(path, bytes);
    const Safetensors file = Safetensors::Open(path);
    for (const auto& [name, view] : file.tensors()) {
      EXPECT_FALSE(IsAligned(view)) << name;
    }
  }
  void ToHalf() {
    const fs::path path = folder_ / "model.safetensors";
    const Safetensors file = Safetensors::Open(path);
    std::vector<Tensor> halves;
    std::vector<NamedTensor> named;
    for (const auto& [name, view] : file.tensors()) {
      const int64_t columns = view.rank == 2 ? view.shape[1] : 1;
      Tensor half = view.rank == 2
                        ? Tensor(DType::kF16, {view.shape[0], columns})
                        : Tensor(DType::kF16, {view.shape[0]});
      for (int64_t i = 0; i < view.shape[0] * columns; ++i) {
        half.As<uint16_t>()[i] = ToF16(view.As<float>()[i]);
      }
      halves.push_back(std::move(half));
      named.push_back({name, std::as_const(halves.back()).view()});
    }
    WriteSafetensors(path, named);
  }
};

std::vector<int32_t> Ids(const Model& model, int64_t count) {
  std::vector<int32_t> ids(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<int32_t>(7 * i % model.config().vocabulary);
  }
  return ids;
}

Tensor FinalStates(const Model& model, int64_t tokens) {
  Context context(ContextOptions{.threads = 2, .implementations = ""});
  const std::vector<int32_t> ids = Ids(model, tokens);
  const std::vector<int64_t> lengths = {tokens};
  ForwardInput input{.ids = ids, .lengths = lengths};
  if (model.config().encoder_decoder()) {
    input.decoder_ids = ids;
    input.decoder_lengths = lengths;
  }
  return Forward(context, model, input);
}

TEST_F(UnalignedModels, GiveTheNumbersOfAlignedOnes) {
  for (const char* family : {"gpt2", "bert", "llama", "qwen3", "marian"}) {
    SCOPED_TRACE(family);
    Copy(family);
    const auto aligned = OpenModel(folder_);
    Shift();
    const auto shifted = OpenModel(folder_);
    const Tensor a = FinalStates(*aligned, 12), b = FinalStates(*shifted, 12);
    ASSERT_EQ(a.bytes(), b.bytes());
    EXPECT_EQ(std::memcmp(a.As<float>(), b.As<float>(), a.bytes()), 0);
    // Few rows read aligned weights as they lie: sums in another order.
    const Tensor c = FinalStates(*aligned, 3), d = FinalStates(*shifted, 3);
    for (int64_t i = 0; i < c.size(); ++i) {
      ASSERT_NEAR(c.As<float>()[i], d.As<float>()[i], 1e-4) << i;
    }
  }
}

TEST_F(UnalignedModels, InHalfPrecisionAreReadTokenByToken) {
  Copy("llama");
  ToHalf();
  const auto aligned = OpenModel(folder_);
  Shift();
  const auto shifted = OpenModel(folder_);
  Context context(ContextOptions{.threads = 2, .implementations = ""});
  Session a(context, *aligned, {}), b(context, *shifted, {});
  for (const int32_t id : Ids(*aligned, 5)) {
    const std::vector<int32_t> one = {id};
    const Tensor& x = a.Feed(one);
    const Tensor& y = b.Feed(one);
    for (int64_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(x.As<float>()[i], y.As<float>()[i], 1e-4) << i;
    }
  }
}

}  // namespace
}  // namespace headwise::unaligned_test
