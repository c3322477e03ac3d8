#include "headwise/train/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "headwise/base/atomic_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::run_folder_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class RunFolderTest : public ScratchFolderTest {
 protected:
  static std::string Refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "";
  }
};

TEST_F(RunFolderTest, IsOneRunsAtATime) {
  const fs::path path = folder_ / "run";
  {
    const RunFolder first(path);
    EXPECT_THAT(Refusal([&] { RunFolder second(path); }),
                HasSubstr("another one at work in it"));
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(Refusal([&] { RunFolder next(path); }), "");
}

TEST_F(RunFolderTest, WhatHoldsAModelIsNotNew) {
  for (const char* file :
       {"model.safetensors", "model.safetensors.index.json", "config.json"}) {
    const fs::path path = folder_ / file;
    fs::create_directory(path);
    WriteFileAtomically(path / "tokenizer.json", "{}");
    EXPECT_EQ(Refusal([&] { RunFolder(path).RequireNew(); }), "");
    WriteFileAtomically(path / file, "somebody's");
    EXPECT_THAT(Refusal([&] { RunFolder(path).RequireNew(); }),
                HasSubstr(std::string("found ") + file));
    EXPECT_THAT(Refusal([&] { RunFolder(path).RequireRun(); }),
                HasSubstr("expected checkpoints of a run to resume"));
    fs::create_directories(path / "checkpoints/step-00000007");
    EXPECT_EQ(Refusal([&] { RunFolder(path).RequireRun(); }), "");
    EXPECT_THAT(Refusal([&] { RunFolder(path).RequireNew(); }),
                HasSubstr("found step-00000007 of a run; resume it"));
  }
}

}  // namespace
}  // namespace headwise::run_folder_test
