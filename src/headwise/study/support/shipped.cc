// Trained models from disk. Door: shipped.h.
#include "headwise/study/support/shipped.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace {

constexpr int64_t kContext = 256;  // what the shipped models were trained on
constexpr int64_t kBlock = 24;     // tokens that are repeated
constexpr uint64_t kRepeatSeed = 2000;  // apart from those of training

// One sequence as the batch that models take.
TrainBatch BatchOf(const MadeSequence& sequence) {
  TrainBatch batch;
  batch.ids = sequence.ids;
  batch.targets = sequence.targets;
  const int64_t length = std::ssize(sequence.ids);
  batch.batch = MakeBatch({&length, 1});
  return batch;
}

void Shuffle(Rng& rng, std::span<int32_t> values) {
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[rng.Below(i)]);
  }
}

// Different tokens of a vocabulary.
std::vector<int32_t> Draw(Rng& rng, const std::vector<int32_t>& from,
                          size_t count) {
  std::vector<int32_t> all = from;
  for (size_t i = 0; i < count; ++i) {
    std::swap(all[i], all[i + rng.Below(all.size() - i)]);
  }
  all.resize(count);
  return all;
}

// Each of half as many tokens twice, no pair of neighbours twice: where one
// comes it says two things, and with the one before it a single one.
std::vector<int32_t> DoubledBlock(Rng& rng, const std::vector<int32_t>& from) {
  const std::vector<int32_t> half = Draw(rng, from, kBlock / 2);
  std::vector<int32_t> first = half, second = half;
  Shuffle(rng, first);
  const auto follows = [&](int32_t a, int32_t b) {
    for (size_t i = 1; i < first.size(); ++i) {
      if (first[i - 1] == a && first[i] == b) return true;
    }
    return false;
  };
  const auto clashes = [&] {
    if (second.front() == first.back()) return true;
    for (size_t i = 1; i < second.size(); ++i) {
      if (follows(second[i - 1], second[i])) return true;
    }
    return false;
  };
  do {
    Shuffle(rng, second);
  } while (clashes());
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

TrainedReader::TrainedReader(const std::filesystem::path& folder,
                             const std::vector<std::string>& texts)
    : name_(folder.filename().string()), checkpoint_(folder) {
  if (!model().config().causal || model().decoder() != nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                {"study", "a causal language model", folder.string(), ""});
  }
  const int64_t context = std::min(ContextOf(model().config(), 0), kContext);
  windows_ = ReadWindows(
      texts, WindowCutter(tokenizer(), model().config(), {.context = context}),
      kMostTokens);
}

Profile TrainedReader::ProfileOf(Context& context, const Model& model) const {
  ProfileOptions options;
  options.context = kContext;
  Profiler profiler(context, model, &tokenizer(), name_, "", options);
  profiler.AddProbes();
  profiler.AddWindows(windows_);
  return profiler.Take();
}

Profile TrainedReader::MakeProfile(Context& context) const {
  return ProfileOf(context, model());
}

std::unique_ptr<Model> TrainedReader::NewModel(Context& context,
                                               uint64_t seed) const {
  TrainConfig how;
  how.seed = seed;
  return BuildModel(model().config(),
                    NewParameters(context, model().config(), how));
}

std::vector<MadeSequence> TrainedReader::Text() const {
  std::vector<MadeSequence> sequences;
  for (const TokenWindow& window : windows_) {
    sequences.push_back(NextToken(window.source.ids));
  }
  return sequences;
}

std::vector<MadeSequence> TrainedReader::Repeats(RepeatTask task,
                                                 int64_t count) const {
  const TokenTable table(&tokenizer(), model().config());
  const TokenFrame frame = FrameOf(tokenizer(), model().config());
  std::vector<MadeSequence> sequences;
  for (int64_t i = 0; i < count; ++i) {
    Rng rng(kRepeatSeed, static_cast<uint64_t>(i));
    const std::vector<int32_t> block =
        task == RepeatTask::kOneToken ? Draw(rng, table.ordinary(), kBlock)
                                      : DoubledBlock(rng, table.ordinary());
    std::vector<int32_t> ids = frame.before;
    ids.insert(ids.end(), block.begin(), block.end());
    ids.insert(ids.end(), block.begin(), block.end());
    MadeSequence made = NextToken(ids);
    // The second copy's first tokens have nothing before them to be found by.
    const size_t known =
        frame.before.size() + kBlock + (task == RepeatTask::kOneToken ? 0 : 1);
    std::fill_n(made.targets.begin(), known, kIgnoreTarget);
    sequences.push_back(std::move(made));
  }
  return sequences;
}

std::vector<double> SequenceLosses(Context& context, const Model& model,
                                   std::span<const MadeSequence> sequences,
                                   RunHooks* hooks) {
  std::vector<double> losses;
  for (const MadeSequence& sequence : sequences) {
    losses.push_back(MeanLoss(
        TargetProbabilities(context, model, BatchOf(sequence), hooks)));
  }
  return losses;
}

double ShareRight(Context& context, const Model& model,
                  std::span<const MadeSequence> sequences, int64_t layers) {
  double right = 0, targets = 0;
  for (const MadeSequence& sequence : sequences) {
    const Tensor logits =
        StoryLogits(context, model, BatchOf(sequence), nullptr, layers);
    const int64_t classes = logits.shape(1);
    for (size_t row = 0; row < sequence.targets.size(); ++row) {
      if (sequence.targets[row] == kIgnoreTarget) continue;
      const float* z = logits.As<float>() + static_cast<int64_t>(row) * classes;
      ++targets;
      right += std::max_element(z, z + classes) - z == sequence.targets[row];
    }
  }
  return right / targets;
}

}  // namespace headwise
