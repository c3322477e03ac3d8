#include "headwise/model/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "headwise/base/scratch_folder.h"
#include "headwise/base/temporary_folder.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/model/model_hash.h"
#include "headwise/model/text_frame.h"
#include "headwise/nn/attention_layer.h"

namespace headwise::checkpoint_test {
namespace {

const std::filesystem::path kSource = HEADWISE_SOURCE;

TEST(Checkpoint, HoldsWhatTheFolderDoes) {
  const std::filesystem::path folder = kSource / "assets/novels";
  const Checkpoint checkpoint(folder, {.bos = BosChoice::kNo});
  EXPECT_EQ(checkpoint.folder(), folder);
  EXPECT_EQ(checkpoint.config().vocabulary, OpenConfig(folder).vocabulary);
  EXPECT_EQ(checkpoint.hash(), ModelHash(folder));
  EXPECT_EQ(checkpoint.FindTokenizer(), &checkpoint.tokenizer());
  EXPECT_EQ(checkpoint.tokenizer().vocab_size(),
            checkpoint.config().vocabulary);
}

// What a thread reads of a checkpoint that others read too.
struct Seen {
  const Model* model = nullptr;
  const Tokenizer* tokenizer = nullptr;
  std::vector<TokenId> ids;
  std::string hash;
  std::vector<float> stream = {};

  bool operator==(const Seen&) const = default;
};

Seen Look(const Checkpoint& checkpoint) {
  Context context({.threads = 1});
  const Model& model = checkpoint.model();
  const Tokenizer& tokenizer = checkpoint.tokenizer();
  Seen seen{&model, &tokenizer,
            Framer(tokenizer, checkpoint.config()).Encode("The sea").ids,
            checkpoint.hash()};
  const int64_t count = std::ssize(seen.ids), width = model.config().width;
  const SequenceBatch batch = MakeBatch({&count, 1});
  Tensor out(DType::kF32, {count, width});
  StackInput input;
  input.ids = seen.ids;
  input.batch = &batch;
  model.Run(context, model.stack(), input, out.view());
  seen.stream.assign(out.As<float>(), out.As<float>() + out.size());
  return seen;
}

TEST(Checkpoint, IsReadByManyThreadsAtOnce) {
  const std::filesystem::path folder = kSource / "assets/novels";
  for (int round = 0; round < 3; ++round) {
    const Checkpoint checkpoint(folder);
    std::latch all(4);
    std::vector<Seen> seen(4);
    std::vector<std::thread> threads;
    for (Seen& one : seen) {
      threads.emplace_back([&] {
        all.arrive_and_wait();
        one = Look(checkpoint);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Seen& one : seen) EXPECT_EQ(one, seen[0]);
    EXPECT_EQ(seen[0].model, &checkpoint.model());
  }
}

TEST(Checkpoint, OfTheSameFilesMapsThemOnce) {
  const std::filesystem::path folder = kSource / "assets/novels";
  const Checkpoint a(folder), b(kSource / "assets" / "text" / ".." / "novels");
  const std::string name = a.weights().Names()[0];
  EXPECT_EQ(a.weights().Find(name).data, b.weights().Find(name).data);
  EXPECT_NE(&a.model(), &b.model());  // which nobody asked to share
  const Checkpoint c(folder, {}, DType::kF32, Device::Cpu());
  const Checkpoint d(folder, {}, DType::kF32, Device::Cpu());
  EXPECT_EQ(&c.model(), &d.model());
  EXPECT_NE(&a.model(), &c.model());
}

TEST(Checkpoint, OfFilesThatWereReplacedHasTheNewOnes) {
  const TemporaryFolder scratch;
  const std::filesystem::path place = scratch.path() / "model";
  std::filesystem::copy(kSource / "assets/planted", place);
  const Checkpoint before(place, {}, DType::kF32, Device::Cpu());
  const std::string hash = before.hash();
  std::filesystem::remove_all(place);
  std::filesystem::copy(kSource / "assets/novels-one-head", place);
  const Checkpoint after(place, {}, DType::kF32, Device::Cpu());
  EXPECT_NE(&before.model(), &after.model());
  EXPECT_NE(after.hash(), hash);
  EXPECT_EQ(after.config().width, OpenConfig(place).width);
  EXPECT_EQ(before.hash(), hash);
}

TEST(Checkpoint, MayHaveNoTokenizer) {
  const Checkpoint checkpoint(kSource / "tests/conformance/goldens/gpt2");
  EXPECT_EQ(checkpoint.FindTokenizer(), nullptr);
  try {
    checkpoint.tokenizer();
    FAIL() << "there is none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

using CheckpointFolder = ScratchFolderTest;

TEST_F(CheckpointFolder, IsToldWhatItHoldsWhereItHasNoConfig) {
  std::ofstream(folder_ / "model.safetensors") << "";
  std::ofstream(folder_ / "vocabulary.txt") << "";
  try {
    const Checkpoint checkpoint(folder_);
    FAIL() << "it has no config.json";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_EQ(error.parts().found,
              "a folder of model.safetensors, vocabulary.txt, without it");
  }
}

}  // namespace
}  // namespace headwise::checkpoint_test
