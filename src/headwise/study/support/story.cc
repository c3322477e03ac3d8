// Stories and texts. Door: story.h.
#include "headwise/study/support/story.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "headwise/base/distribution.h"
#include "headwise/error.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/study/support/head_scores.h"
#include "headwise/tokenizer/text_source.h"

namespace headwise {
namespace {

// Tokens: <bos> . the near, 12 adjectives, 12 nouns and their plurals, 6 verbs
// and theirs.
constexpr int32_t kBos = 0, kStop = 1, kThe = 2, kNear = 3;
constexpr int32_t kAdjectives = 4, kNouns = 16, kVerbs = 40;
constexpr int32_t kStems = 12, kVerbStems = 6;
constexpr int64_t kCast = 3;  // nouns of a story

constexpr const char* kWords[] = {
    "<bos>",  ".",       "the",      "near",    "red",     "old",    "new",
    "big",    "small",   "slow",     "quick",   "warm",    "cold",   "wise",
    "loud",   "calm",    "dog",      "cat",     "bird",    "horse",  "king",
    "queen",  "boat",    "tree",     "star",    "child",   "friend", "sailor",
    "dogs",   "cats",    "birds",    "horses",  "kings",   "queens", "boats",
    "trees",  "stars",   "children", "friends", "sailors", "sees",   "hears",
    "finds",  "follows", "likes",    "calls",   "see",     "hear",   "find",
    "follow", "like",    "call"};
static_assert(std::size(kWords) == kStoryVocabulary);

struct Phrase {
  int32_t adjective;
  int32_t noun;
};

void Say(const Phrase& phrase, std::vector<int32_t>& tokens) {
  tokens.insert(tokens.end(), {kThe, phrase.adjective, phrase.noun});
}

constexpr int64_t kLeastBytes = 4096;
// Enough for what is trained here; larger texts are cut.
constexpr size_t kMostBytes = size_t{1} << 24;

std::string ReadBytes(const std::vector<std::string>& paths) {
  TextSource source(paths);
  std::string bytes;
  while (const std::optional<Document> document = source.Next()) {
    bytes += document->text;
    if (bytes.size() >= kMostBytes) break;
  }
  if (static_cast<int64_t>(bytes.size()) < kLeastBytes) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"study", fmt::format("at least {} bytes of text", kLeastBytes),
         std::to_string(bytes.size()), "without a text a study makes its own"});
  }
  return bytes;
}

// Windows of bytes [begin, end) of a text.
MadeBatches::Maker Windows(std::shared_ptr<const std::string> bytes,
                           size_t begin, size_t end) {
  return [=](Rng& rng) {
    const size_t at =
        begin + rng.Below(end - begin - static_cast<size_t>(kStoryLength));
    std::vector<int32_t> tokens;
    for (size_t i = at; i < at + kStoryLength; ++i) {
      tokens.push_back(static_cast<unsigned char>((*bytes)[i]));
    }
    return NextToken(tokens);
  };
}

}  // namespace

std::vector<int32_t> MakeStory(Rng& rng) {
  std::array<int32_t, kStems> adjectives;
  for (int32_t i = 0; i < kStems; ++i) adjectives[i] = kAdjectives + i;
  std::vector<Phrase> cast;
  for (int64_t i = 0; i < kCast; ++i) {
    const size_t drawn = i + rng.Below(kStems - i);
    std::swap(adjectives[i], adjectives[drawn]);
    cast.push_back(
        {adjectives[i], kNouns + static_cast<int32_t>(rng.Below(2 * kStems))});
  }
  std::vector<int32_t> tokens = {kBos};
  while (static_cast<int64_t>(tokens.size()) < kStoryLength) {
    const Phrase& subject = cast[rng.Below(kCast)];
    Say(subject, tokens);
    if (rng.Below(2) == 0) {
      tokens.push_back(kNear);
      Say(cast[rng.Below(kCast)], tokens);
    }
    const int32_t plural = IsStoryPlural(subject.noun) ? kVerbStems : 0;
    tokens.push_back(kVerbs + plural +
                     static_cast<int32_t>(rng.Below(kVerbStems)));
    Say(cast[rng.Below(kCast)], tokens);
    tokens.push_back(kStop);
  }
  tokens.resize(kStoryLength);
  return tokens;
}

std::vector<int32_t> MakeRepeats(Rng& rng, int64_t vocabulary) {
  const Repeats repeats{.vocabulary = vocabulary - 1,  // without <bos>
                        .length = kStoryLength - 1,
                        .min_period = 5,
                        .max_period = 24};
  std::vector<int32_t> tokens = {kBos};
  for (const int32_t token : repeats.Tokens(rng)) tokens.push_back(token + 1);
  return tokens;
}

std::string StoryWord(int32_t token) { return kWords[token]; }
bool IsStoryAdjective(int32_t token) {
  return token >= kAdjectives && token < kNouns;
}
bool IsStoryVerb(int32_t token) { return token >= kVerbs; }
bool IsStoryPlural(int32_t token) {
  return token >= kVerbs ? token >= kVerbs + kVerbStems
                         : token >= kNouns + kStems;
}

StudyText OpenStudyText(const StudyRequest& request) {
  StudyText text;
  if (request.texts.empty()) {
    text.name = "stories of a made-up grammar";
    text.plain = [](Rng& rng) { return NextToken(MakeStory(rng)); };
    text.held_out = text.plain;
    text.train = [](Rng& rng) {
      return NextToken(rng.Below(4) == 0 ? MakeRepeats(rng) : MakeStory(rng));
    };
    return text;
  }
  const auto bytes =
      std::make_shared<const std::string>(ReadBytes(request.texts));
  const size_t cut = bytes->size() / 10 * 9;
  text.name =
      fmt::format("{} bytes of text, the last tenth held out", bytes->size());
  text.story = false;
  text.vocabulary = 256;
  text.plain = Windows(bytes, 0, cut);
  text.train = text.plain;
  text.held_out = Windows(bytes, cut, bytes->size());
  return text;
}

MadeBatches::Maker MostlyRepeats(const StudyText& text) {
  return [make = text.plain, vocabulary = text.vocabulary](Rng& rng) {
    return rng.Below(3) > 0 ? NextToken(MakeRepeats(rng, vocabulary))
                            : make(rng);
  };
}

TrainConfig StoryTraining(uint64_t seed, int64_t steps) {
  TrainConfig how;
  how.seed = seed;
  how.steps = steps;
  how.batch = 16;
  how.rate = 3e-3;
  how.init_deviation = 0.1;  // about 1/√width: these models are narrow
  how.warmup = std::min<int64_t>(30, steps / 4);
  how.decay = 0.01;
  return how;
}

TrainConfig InductionTraining(uint64_t seed, int64_t steps) {
  TrainConfig how = StoryTraining(seed, steps);
  how.init_deviation = 0.05;
  return how;
}

Json TinyGpt2(const TinyShape& shape) {
  return {{"model_type", "gpt2"},         {"n_embd", shape.width},
          {"n_layer", shape.layers},      {"n_head", shape.heads},
          {"n_inner", shape.hidden},      {"vocab_size", shape.vocabulary},
          {"n_positions", shape.context}, {"n_ctx", shape.context}};
}

Json StoryLlama(TinyShape shape) {
  shape.context = kStoryLength;
  Json config = TinyLlama(shape);
  config["bos_token_id"] = kBos;
  config["rope_theta"] = 100;
  return config;
}

std::vector<TokenWindow> StoryWindows(const MadeBatches::Maker& make,
                                      uint64_t seed, int64_t count) {
  std::vector<TokenWindow> windows;
  for (int64_t i = 0; i < count; ++i) {
    Rng rng(seed, static_cast<uint64_t>(i));
    windows.push_back(WindowOfIds(make(rng).ids));
  }
  return windows;
}

std::vector<TextExample> StoryExamples(const MadeBatches::Maker& make,
                                       uint64_t seed, int64_t count) {
  std::vector<TextExample> examples;
  for (TokenWindow& window : StoryWindows(make, seed, count)) {
    examples.push_back({std::move(window.source.ids), {}, {}});
  }
  return examples;
}

Profile StoryProfile(Context& context, const Model& model,
                     const StudyText& text, int64_t count) {
  ProfileOptions options;
  options.context = kStoryLength;
  Profiler profiler(context, model, nullptr, "study", "", options);
  profiler.AddProbes();
  profiler.AddWindows(StoryWindows(text.held_out, kHeldOutSeed, count));
  return profiler.Take();
}

Tensor StoryLogits(Context& context, const Model& model,
                   const TrainBatch& batch, RunHooks* hooks, int64_t layers) {
  const Stack& stack = model.stack();
  StackInput input;
  input.ids = batch.ids;
  input.batch = &batch.batch;
  input.hooks = hooks;
  const auto rows = static_cast<int64_t>(batch.ids.size());
  const Temp memory(context, model.type(), {rows, model.config().width});
  const TensorView x = memory.view();
  model.Embed(context, stack, input, x);
  const auto all = static_cast<int64_t>(stack.blocks.size());
  for (int64_t layer = 0; layer < (layers < 0 ? all : layers); ++layer) {
    model.RunLayer(context, stack, layer, input, x);
  }
  model.Finish(context, stack, hooks, x);
  Tensor logits(context, DType::kF32, {rows, model.config().vocabulary});
  model.Logits(context, x, logits.view());
  if (context.device().is_cpu()) return logits;
  return ToHost(context, logits.view());
}

std::vector<double> TargetProbabilities(Context& context, const Model& model,
                                        const TrainBatch& batch,
                                        RunHooks* hooks) {
  const Tensor logits = StoryLogits(context, model, batch, hooks);
  const int64_t classes = logits.shape(1);
  std::vector<double> probabilities;
  for (size_t row = 0; row < batch.targets.size(); ++row) {
    if (batch.targets[row] == kIgnoreTarget) continue;
    const float* z = logits.As<float>() + static_cast<int64_t>(row) * classes;
    const std::vector<double> p = Softmax(std::vector<double>(z, z + classes));
    probabilities.push_back(p[batch.targets[row]]);
  }
  return probabilities;
}

double MeanLoss(std::span<const double> probabilities) {
  double sum = 0;
  for (const double p : probabilities) sum -= std::log(p);
  return sum / static_cast<double>(probabilities.size());
}

double MeanOf(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

}  // namespace headwise
