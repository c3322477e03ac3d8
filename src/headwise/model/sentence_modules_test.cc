#include "headwise/model/sentence_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/tensor/slice.h"

namespace headwise::sentence_modules_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SentenceModulesTest : public ScratchFolderTest {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  // modules.json with a model, 1_Pooling and more.
  void WriteModules(const std::string& more) const {
    Write(
        "modules.json",
        R"([{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},
{"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"})" +
            more + "]");
  }
  SentenceModules Read(int64_t width = 4) const {
    return ReadSentenceModules(folder_, width);
  }
  std::string ErrorOf() const {
    try {
      Read();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(SentenceModulesTest, WithoutModulesIsAveraged) {
  const SentenceModules modules = Read();
  EXPECT_FALSE(modules.said);
  EXPECT_THAT(modules.pooling, ElementsAre(Pooling::kMean));
  EXPECT_TRUE(modules.steps.empty());
}

TEST_F(SentenceModulesTest, SaysPoolingStepsLengthAndPrompt) {
  WriteModules(
      R"(,{"idx":2,"path":"2_Normalize","type":"sentence_transformers.models.Normalize"})");
  Write("1_Pooling/config.json",
        R"({"word_embedding_dimension":4,"pooling_mode_mean_tokens":true,
"pooling_mode_cls_token":true,"pooling_mode_max_tokens":false})");
  Write("sentence_bert_config.json",
        R"({"max_seq_length":128,"do_lower_case":false})");
  Write("config_sentence_transformers.json",
        R"({"prompts":{"query":"query: "},"default_prompt_name":"query"})");
  const SentenceModules modules = Read();
  EXPECT_THAT(modules.pooling, ElementsAre(Pooling::kCls, Pooling::kMean));
  EXPECT_TRUE(modules.normalizes());
  EXPECT_EQ(modules.max_tokens, 128);
  EXPECT_EQ(modules.prompt, "query: ");
}

TEST_F(SentenceModulesTest, RefusesByName) {
  WriteModules(
      R"(,{"idx":2,"path":"2_CNN","type":"sentence_transformers.models.CNN"})");
  Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true})");
  EXPECT_THAT(ErrorOf(), HasSubstr("CNN"));
  WriteModules("");
  Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":false})");
  EXPECT_THAT(ErrorOf(), HasSubstr("pooling mode"));
  Write("1_Pooling/config.json",
        R"({"word_embedding_dimension":5,"pooling_mode_cls_token":true})");
  EXPECT_THAT(ErrorOf(), HasSubstr("word_embedding_dimension"));
  Write("1_Pooling/config.json", R"({"pooling_mode":"lasttoken"})");
  Write("sentence_bert_config.json", R"({"do_lower_case":true})");
  EXPECT_THAT(ErrorOf(), HasSubstr("do_lower_case"));
}

TEST_F(SentenceModulesTest, ReadsADenseOfFittingWidth) {
  WriteModules(
      R"(,{"idx":2,"path":"2_Dense","type":"sentence_transformers.models.Dense"})");
  Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true})");
  Write("2_Dense/config.json",
        R"({"in_features":4,"out_features":2,"bias":true,
"activation_function":"torch.nn.modules.activation.Tanh"})");
  const std::vector<float> weight(8, 0.5f), bias(2, 1.0f);
  WriteSafetensors(folder_ / "2_Dense/model.safetensors",
                   {{"linear.weight", Reshaped(ViewOf(weight), {2, 4})},
                    {"linear.bias", ViewOf(bias)}});
  const SentenceModules modules = Read();
  ASSERT_EQ(modules.steps.size(), 1u);
  EXPECT_EQ(modules.steps[0].dense.in(), 4);
  EXPECT_EQ(modules.steps[0].dense.out(), 2);
  EXPECT_TRUE(modules.steps[0].activated);
  EXPECT_EQ(modules.steps[0].activation, Activation::kTanh);
  Write("1_Pooling/config.json",
        R"({"pooling_mode_mean_tokens":true,"pooling_mode_max_tokens":true})");
  EXPECT_THAT(ErrorOf(), HasSubstr("a Dense that reads 8"));
}

}  // namespace
}  // namespace headwise::sentence_modules_test
