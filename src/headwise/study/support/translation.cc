// Translators of studies. Door: translation.h.
#include "headwise/study/support/translation.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "headwise/runtime/generate.h"
#include "headwise/study/support/story.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/tokenizer/tokenizer_json.h"
#include "headwise/train/pair_batches.h"

namespace headwise {
namespace {

constexpr int32_t kEos = 1, kPad = 2;
constexpr int64_t kHoldOut = 31;
constexpr int64_t kLongest = 96;  // tokens of a side

struct Pairs {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<TokenPair> train;
  std::vector<TokenPair> held_out;
};

Pairs ReadAll(const StudyRequest& request) {
  BpeTraining vocabulary;
  vocabulary.size = 2048;
  vocabulary.bos = "";
  vocabulary.special_tokens = {"<unk>", "<eos>", "<pad>"};
  Pairs pairs;
  TextSource texts(request.texts);
  pairs.tokenizer =
      ParseTokenizerJson(TrainByteLevelBpe(texts, vocabulary), "study");
  int64_t number = 0;
  for (const std::filesystem::path& file : ListFiles(request.texts)) {
    for (TokenPair& pair : ReadPairs(file, *pairs.tokenizer, kLongest)) {
      const bool kept = ++number % kHoldOut == 0;
      (kept ? pairs.held_out : pairs.train).push_back(std::move(pair));
    }
  }
  const auto most = static_cast<size_t>(request.full ? 1000 : 200);
  pairs.held_out.resize(std::min(most, pairs.held_out.size()));
  return pairs;
}

Json MarianConfig(const TranslatorShape& shape, int64_t heads,
                  int64_t vocabulary) {
  return {{"model_type", "marian"},
          {"d_model", shape.width},
          {"encoder_layers", shape.layers},
          {"decoder_layers", shape.layers},
          {"encoder_attention_heads", heads},
          {"decoder_attention_heads", heads},
          {"encoder_ffn_dim", 2 * shape.width},
          {"decoder_ffn_dim", 2 * shape.width},
          {"max_position_embeddings", kLongest + 1},
          {"activation_function", "relu"},
          {"scale_embedding", true},
          {"vocab_size", vocabulary},
          {"eos_token_id", kEos},
          {"pad_token_id", kPad},
          {"decoder_start_token_id", kPad}};
}

BleuEstimate Score(Context& context, const Model& model, const Pairs& pairs) {
  GenerateOptions options;
  options.max_tokens = kLongest;
  std::vector<BleuCounts> counts;
  for (const TokenPair& pair : pairs.held_out) {
    std::vector<int32_t> source = pair.source;
    source.push_back(kEos);
    const std::string said =
        pairs.tokenizer->Decode(Generate(context, model, source, options));
    counts.push_back(CountBleu(said, pairs.tokenizer->Decode(pair.target)));
  }
  return EstimateBleu(counts);
}

}  // namespace

bool GivesPairs(const StudyRequest& request) {
  return !request.texts.empty() &&
         std::all_of(
             request.texts.begin(), request.texts.end(),
             [](const std::string& path) { return path.ends_with(".tsv"); });
}

std::vector<TranslationScore> TrainTranslators(Context& context,
                                               const StudyRequest& request,
                                               const TranslatorShape& shape) {
  Pairs pairs = ReadAll(request);
  const int64_t steps = StudySteps(request, 200, 6000);
  StudyClock clock(request, "translation",
                   steps * static_cast<int64_t>(shape.heads.size()));
  PairOptions options;
  options.start = kPad;
  options.eos = kEos;
  const PairBatches data(pairs.train, options);
  std::vector<TranslationScore> scores;
  for (const int64_t heads : shape.heads) {
    TrainConfig how = StoryTraining(1, steps);
    how.batch = 32;
    how.rate = 2e-3;
    how.schedule = RateSchedule::kInverseSqrt;
    TinyModel tiny(context,
                   MarianConfig(shape, heads, pairs.tokenizer->vocab_size()),
                   how);
    tiny.Train(data, clock);
    scores.push_back(
        {heads, tiny.store().Count(), Score(context, tiny.model(), pairs)});
  }
  return scores;
}

}  // namespace headwise
