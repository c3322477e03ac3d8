#include "headwise/model/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::model_files_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelFilesTest : public ScratchFolderTest {
 protected:
  fs::path Put(const std::string& name) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << name;
    return folder_ / name;
  }
  static std::vector<std::string> Names(const fs::path& folder) {
    std::vector<std::string> names;
    for (const fs::path& file : FilesBeside(folder)) {
      names.push_back(file.filename().string());
    }
    return names;
  }
  static std::string ErrorOf(const fs::path& folder) {
    try {
      FilesBeside(folder);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(ModelFilesTest, AreThoseOfKnownNames) {
  for (const char* name :
       {"config.json", "model.safetensors", "model-00001-of-00002.safetensors",
        "pytorch_model.bin", "pytorch_model-00001-of-00002.bin",
        "pytorch_model.bin.index.json", "tokenizer.json", "spiece.model",
        "tok512.bin", "LICENSE"}) {
    EXPECT_TRUE(IsModelFile(name)) << name;
  }
  for (const char* name :
       {"notes.txt", "pytorch_model-best.bin", "model.gguf", "training.json",
        "model-best.safetensors", "model-.safetensors.bak", "id_rsa"}) {
    EXPECT_FALSE(IsModelFile(name)) << name;
  }
}

TEST_F(ModelFilesTest, BesideWeightsArePlainFiles) {
  for (const char* name : {"m/config.json", "m/tokenizer.json", "m/notes.txt",
                           "m/README.md", "m/vocab.txt/inside"}) {
    Put(name);
  }
  ASSERT_EQ(mkfifo((folder_ / "m/merges.txt").c_str(), 0600), 0);
  fs::create_symlink("nowhere", folder_ / "m/NOTICE");
  EXPECT_THAT(Names(folder_ / "m"), ElementsAre("README.md", "tokenizer.json"));
}

TEST_F(ModelFilesTest, LinksThatLeadOutOfTheFolderAreRefused) {
  const fs::path key = Put("key");
  Put("m/config.json");
  fs::create_symlink(key, folder_ / "m/notes.txt");  // of no known name
  EXPECT_THAT(Names(folder_ / "m"), ElementsAre());
  fs::create_symlink("notes.txt", folder_ / "m/README.md");
  EXPECT_THAT(ErrorOf(folder_ / "m"), HasSubstr("a link to " + key.string()));
  fs::remove(folder_ / "m/README.md");
  fs::create_symlink("config.json", folder_ / "m/README.md");
  EXPECT_THAT(Names(folder_ / "m"), ElementsAre("README.md"));
}

// Hugging Face's cache has each file under its hash.
TEST_F(ModelFilesTest, LinksOfACacheAreFollowed) {
  const std::string model = "hub/models--a--b/";
  const std::string hash(40, 'a');
  const fs::path snapshot = folder_ / (model + "snapshots/1");
  Put(model + "blobs/" + hash);
  Put(model + "blobs/key");
  Put(model + "snapshots/1/config.json");
  fs::create_symlink("../../blobs/" + hash, snapshot / "tokenizer.json");
  EXPECT_THAT(Names(snapshot), ElementsAre("tokenizer.json"));
  fs::create_symlink("../../blobs/key", snapshot / "vocab.json");
  EXPECT_THAT(ErrorOf(snapshot), HasSubstr("blobs/key"));
}

TEST_F(ModelFilesTest, AFileThatIsTooLargeIsRefused) {
  fs::resize_file(Put("m/vocab.txt"), kMostBytesBeside + 1);  // without blocks
  EXPECT_THAT(ErrorOf(folder_ / "m"), HasSubstr("vocab.txt"));
}

}  // namespace
}  // namespace headwise::model_files_test
