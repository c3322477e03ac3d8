// Translators of studies. Door: translation.h.
#include "headwise/study/support/translation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "headwise/runtime/generate.h"
#include "headwise/study/support/tiny_model.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/tokenizer/tokenizer_json.h"
#include "headwise/train/pair_batches.h"

namespace headwise {
namespace {

constexpr int64_t kHeldOutPair = 31;

struct Pairs {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<TokenPair> train;
  std::vector<TokenPair> held_out;
};

Pairs ReadAll(const StudyRequest& request) {
  Pairs pairs;
  TextSource texts(PairsOf(request));
  pairs.tokenizer = TranslatorTokenizer(texts);
  int64_t number = 0;
  for (const std::filesystem::path& file : ListFiles(PairsOf(request))) {
    for (TokenPair& pair : ReadPairs(file, *pairs.tokenizer, kLongestSide)) {
      const bool kept = ++number % kHeldOutPair == 0;
      (kept ? pairs.held_out : pairs.train).push_back(std::move(pair));
    }
  }
  const auto most = static_cast<size_t>(request.full ? 1000 : 200);
  pairs.held_out.resize(std::min(most, pairs.held_out.size()));
  return pairs;
}

// On the host: one sentence gives an accelerator too little.
BleuEstimate Score(Context& host, const Model& model, const Pairs& pairs) {
  GenerateJob job;
  job.max_tokens = kLongestSide;
  std::vector<BleuCounts> counts(pairs.held_out.size());
  ForEachRun(host, std::ssize(counts), [&](Context& own, int64_t i) {
    const TokenPair& pair = pairs.held_out[i];
    std::vector<int32_t> source = pair.source;
    source.push_back(kTranslatorEos);
    const std::string said =
        pairs.tokenizer->Decode(Generate(own, model, source, job));
    counts[i] = CountBleu(said, pairs.tokenizer->Decode(pair.target));
  });
  return EstimateBleu(counts);
}

std::vector<std::string> Those(const StudyRequest& request, bool pairs) {
  std::vector<std::string> those;
  for (const std::string& path : request.texts) {
    if (path.ends_with(".tsv") == pairs) those.push_back(path);
  }
  return those;
}

}  // namespace

std::vector<std::string> PairsOf(const StudyRequest& request) {
  return Those(request, true);
}
std::vector<std::string> TextsOf(const StudyRequest& request) {
  return Those(request, false);
}

std::unique_ptr<Tokenizer> TranslatorTokenizer(TextSource& texts) {
  VocabularyJob vocabulary;
  vocabulary.size = 4096;
  vocabulary.bos = "";
  vocabulary.special_tokens = {"<unk>", "<eos>", "<pad>"};
  return ParseTokenizerJson(TrainByteLevelBpe(texts, vocabulary), "study");
}

Json TranslatorConfig(const TranslatorShape& shape, int64_t heads,
                      int64_t vocabulary) {
  return {{"model_type", "marian"},
          {"d_model", shape.width},
          {"encoder_layers", shape.layers},
          {"decoder_layers", shape.layers},
          {"encoder_attention_heads", heads},
          {"decoder_attention_heads", heads},
          {"encoder_ffn_dim", 4 * shape.width},
          {"decoder_ffn_dim", 4 * shape.width},
          {"max_position_embeddings", kLongestSide + 1},
          {"activation_function", "relu"},
          {"scale_embedding", true},
          {"vocab_size", vocabulary},
          {"eos_token_id", kTranslatorEos},
          {"pad_token_id", kTranslatorPad},
          {"decoder_start_token_id", kTranslatorPad}};
}

TrainConfig TranslatorTraining(const TranslatorShape& shape, uint64_t seed,
                               int64_t steps, bool full) {
  TrainConfig how;
  how.task = TrainTask::kTranslation;
  how.seed = seed;
  how.steps = steps;
  how.batch = full ? 128 : 32;
  how.rate = 1e-3;
  how.warmup = std::min<int64_t>(400, steps / 4);
  how.schedule = RateSchedule::kCosine;
  how.decay = 0.01;
  how.dropout = 0.1;
  how.smoothing = 0.1;
  how.init_deviation = 1 / std::sqrt(static_cast<double>(shape.width));
  return how;
}

std::vector<TranslationScore> TrainTranslators(
    Context& context, const StudyRequest& request, const TranslatorShape& shape,
    int64_t steps, const std::vector<uint64_t>& seeds) {
  const Pairs pairs = ReadAll(request);
  StudyClock clock(request, "translation",
                   steps * std::ssize(shape.heads) * std::ssize(seeds));
  std::vector<TranslationScore> scores;
  for (const int64_t heads : shape.heads) {
    TranslationScore score;
    score.heads = heads;
    const Json config =
        TranslatorConfig(shape, heads, pairs.tokenizer->vocab_size());
    for (const uint64_t seed : seeds) {
      const TrainConfig how =
          TranslatorTraining(shape, seed, steps, request.full);
      const DType type = context.device().is_cpu() ? DType::kF32 : DType::kBF16;
      TinyModel tiny(context, config, how, type);
      const PairBatches data(
          pairs.train,
          {.start = kTranslatorPad, .eos = kTranslatorEos, .seed = seed});
      tiny.Train(data, clock);
      const HostModel decoder(context, tiny);
      score.parameters = tiny.store().Count();
      score.bleu.push_back(Score(decoder.context(), decoder.model(), pairs));
    }
    scores.push_back(std::move(score));
  }
  return scores;
}

}  // namespace headwise
