#include "headwise/model/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/model/model_hash.h"

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
