// The recipe model and its text. Door: novels.h.
#include "headwise/study/support/novels.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/base/temporary_folder.h"
#include "headwise/error.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/family.h"
#include "headwise/train/material.h"

namespace headwise {
namespace {

constexpr int64_t kNovelBatch = 64, kLength = 512;
// Tests train on less: `effort` shortens these too.
constexpr int64_t kShortLength = 64;
constexpr double kWhole = 0.05;  // efforts from which models are whole
constexpr int64_t kHoldOut = 20;
constexpr int64_t kSmallHeldOut = 64;  // windows of small models

}  // namespace

bool ReadsNovels(const StudyRequest& request) {
  return request.full && !request.texts.empty();
}

Language::Language(Context& context, const StudyRequest& request) {
  if (ReadsNovels(request)) {
    OpenNovels(context, request);
    return;
  }
  text_ = OpenStudyText(request);
  name_ = text_.name;
  held_out_ = std::make_unique<MadeBatches>(kHeldOutSeed, text_.held_out);
}

void Language::OpenNovels(Context& context, const StudyRequest& request) {
  if (request.model.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"study", "a model whose tokenizer cuts the texts", "none",
                 "give one; any language model's will do"});
  }
  tokenizer_ = Tokenizer::Load(request.model);
  const double effort = std::min(1.0, request.effort);
  whole_ = effort >= kWhole;
  length_ = whole_ ? kLength : kShortLength;
  batch_ = std::max<int64_t>(2, std::llround(kNovelBatch * effort));
  TrainConfig data = Training(1, 1);
  data.data = request.texts;
  data.hold_out = kHoldOut;
  const TemporaryFolder folder;  // what is mapped from it stays
  corpus_ =
      Corpus::Open(context, data, *tokenizer_,
                   folder.path() / "tokens.safetensors", request.progress);
  name_ = fmt::format("{} tokens of text, {} held out", corpus_->train().size(),
                      corpus_->validation().size());
  if (request.notes) {
    request.notes->SetText(
        {name_, corpus_->hash(), request.model.filename().string()});
  }
  TextBatchOptions options =
      BatchOptionsOf(data, ReadConfig(Config({}), "study"), *tokenizer_);
  options.seed = kHeldOutSeed;
  held_out_ = std::make_unique<TextBatches>(corpus_->validation(), options);
}

int64_t Language::vocabulary() const {
  return tokenizer_ ? tokenizer_->vocab_size() : text_.vocabulary;
}

Json Language::Config(const LanguageShape& shape) const {
  TinyShape tiny;
  tiny.heads = shape.heads;
  tiny.vocabulary = vocabulary();
  tiny.context = length_;
  tiny.layers = whole_ ? shape.layers : std::max<int64_t>(1, shape.layers / 3);
  if (!tokenizer_) {
    tiny.width = shape.width / 2;
    tiny.hidden = 2 * tiny.width;
    return TinyGpt2(tiny);
  }
  tiny.width = shape.width;
  tiny.head_dim = shape.head_dim;
  // 8/3 of the width, in whole sixteens: 688 for 256.
  tiny.hidden = (shape.width * 8 / 3 + 15) / 16 * 16;
  Json config = TinyLlama(tiny);
  config["rms_norm_eps"] = 1e-6;
  config["rope_theta"] = 10000.0;
  config["hidden_act"] = "silu";
  const Encoding first = tokenizer_->Encode("a");
  if (first.size() > 0 && first.added[0]) config["bos_token_id"] = first.ids[0];
  return config;
}

TrainConfig Language::Training(uint64_t seed, int64_t steps) const {
  if (!tokenizer_) {
    TrainConfig how = StoryTraining(seed, steps);
    how.batch = batch_;
    return how;
  }
  TrainConfig how;
  how.seed = seed;
  how.steps = steps;
  how.batch = batch_;
  how.sequence = length_;
  how.rate = 2e-3;
  how.warmup = std::min<int64_t>(200, steps / 4);
  how.schedule = RateSchedule::kCosine;
  how.final_rate = 0.1;
  how.beta1 = 0.9;
  how.beta2 = 0.95;
  how.decay = 0.1;
  how.clip = 1;
  how.init_deviation = 0.02;
  how.init_scale_residual = true;
  return how;
}

TrainConfig Language::WithRepeats(TrainConfig how) const {
  how.repeat_share = 0.25;
  how.repeat_share_late = 0.05;
  how.repeat_change = 0.3;
  how.repeat_min = 8;
  how.repeat_max = std::min<int64_t>(120, length_ / 2);
  how.repeat_random = 0.5;
  return how;
}

std::unique_ptr<BatchSource> Language::Train(const TrainConfig& how) const {
  if (!corpus_) {
    return std::make_unique<MadeBatches>(
        how.seed, how.repeat_share > 0 ? MostlyRepeats(text_) : text_.plain);
  }
  return std::make_unique<TextBatches>(
      corpus_->train(),
      BatchOptionsOf(how, ReadConfig(Config({}), "study"), *tokenizer_));
}

int64_t Language::held_out(int64_t most_tokens) const {
  if (!corpus_) return kSmallHeldOut;
  return std::clamp<int64_t>(most_tokens / length_, 1, held_out_->size());
}

std::vector<TokenWindow> Language::Windows(int64_t first, int64_t count) const {
  std::vector<TokenWindow> windows;
  for (int64_t i = first; i < first + count; ++i) {
    windows.push_back(WindowOfIds(held_out_->Make(i, 1).ids));
  }
  return windows;
}

std::string Language::Word(int32_t id) const {
  if (tokenizer_) return tokenizer_->Decode(std::vector<int32_t>{id});
  return text_.story ? StoryWord(id) : std::string(1, static_cast<char>(id));
}

Profile Language::MakeProfile(Context& context, const Model& model,
                              int64_t count, int64_t first) const {
  ProfileOptions options;
  options.context = length_;
  Profiler profiler(context, model, tokenizer_.get(), "study", "", options);
  profiler.AddProbes();
  profiler.AddWindows(Windows(first, count));
  return profiler.Take();
}

std::unique_ptr<TinyModel> Language::NewModel(Context& context,
                                              const LanguageShape& shape,
                                              const TrainConfig& how,
                                              const Json& choice) const {
  const bool half = tokenizer_ && !context.device().is_cpu();
  Json config = Config(shape);
  if (!choice.is_null()) config["headwise"] = choice;
  return std::make_unique<TinyModel>(context, config, how,
                                     half ? DType::kBF16 : DType::kF32);
}

}  // namespace headwise
