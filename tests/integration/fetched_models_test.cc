// Larger real checkpoints, which a script fetches: what they are known to say.
// Skipped where they are absent (see shared_files.h).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/model/checkpoint.h"
#include "headwise/runtime/generate.h"
#include "headwise/runtime/session.h"
#include "headwise/tokenizer/tokenizer.h"
#include "shared_files.h"

namespace headwise::fetched_models_test {
namespace {

// The mean of the final states over a sentence's tokens, of length 1.
std::vector<double> SentenceVector(Context& context, const Model& model,
                                   const Tokenizer& tokenizer,
                                   const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.Encode(text).ids;
  const int64_t lengths[] = {static_cast<int64_t>(ids.size())};
  const Tensor x = Forward(context, model, {.ids = ids, .lengths = lengths});
  std::vector<double> mean(x.shape(1));
  for (int64_t i = 0; i < x.size(); ++i) {
    mean[i % x.shape(1)] += x.As<float>()[i];
  }
  double squares = 0;
  for (const double value : mean) squares += value * value;
  for (double& value : mean) value /= std::sqrt(squares);
  return mean;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(FetchedModels, MiniLmKnowsWhatSentencesShare) {
  const auto folder = ModelsFolder() / "minilm-l6";
  HEADWISE_REQUIRE(folder / "model.safetensors");
  const auto model = OpenModel(folder);
  const auto tokenizer = Tokenizer::Load(folder);
  Context context({2, ""});
  const auto of = [&](const char* text) {
    return SentenceVector(context, *model, *tokenizer, text);
  };
  const auto cat = of("The cat sits on the mat.");
  EXPECT_NEAR(Dot(cat, of("A kitten is resting on a rug.")), 0.641, 0.002);
  EXPECT_NEAR(Dot(cat, of("The stock market crashed yesterday.")), 0.105,
              0.002);
}

TEST(FetchedModels, MiniMindKnowsTheCapitalOfFrance) {
  const auto folder = ModelsFolder() / "minimind2-small";
  HEADWISE_REQUIRE(folder / "model.safetensors");
  const auto model = OpenModel(folder);
  const auto tokenizer = Tokenizer::Load(folder);
  Context context({2, ""});
  const std::vector<int32_t> prompt =
      tokenizer
          ->Encode(
              "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
              "<|im_start|>assistant\n")
          .ids;
  GenerateJob job;
  job.max_tokens = 20;
  job.context = 128;
  const std::string answer =
      tokenizer->Decode(Generate(context, *model, prompt, job));
  EXPECT_NE(answer.find("capital of France is Paris"), answer.npos) << answer;
}

}  // namespace
}  // namespace headwise::fetched_models_test
