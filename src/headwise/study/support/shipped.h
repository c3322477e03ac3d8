// A trained model from disk as studies look at it: with the text that it
// reads, what its heads do, and tasks of random tokens.
//
//   const TrainedReader reader(request.model, request.reading);
//   const Profile profile = reader.MakeProfile(context);
//   const std::vector<double> losses =
//       SequenceLosses(context, reader.model(), reader.Text());
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/model.h"
#include "headwise/nn/hooks.h"
#include "headwise/runtime/windows.h"
#include "headwise/study/support/tiny_model.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// What random sequences repeat.
enum class RepeatTask : uint8_t {
  // Different tokens: each is found by the one before it.
  kOneToken,
  // Tokens that come twice in a block, with different successors: each is
  // found only by the two before it.
  kTwoTokens,
};

class TrainedReader {
 public:
  // A causal language model with its tokenizer, and at most kMostTokens of the
  // texts. Throws as Checkpoint does, and Error(kInvalidArgument) for a model
  // of another kind.
  TrainedReader(const std::filesystem::path& folder,
                const std::vector<std::string>& texts);

  const Model& model() const { return checkpoint_.model(); }
  const Tokenizer& tokenizer() const { return checkpoint_.tokenizer(); }
  const std::vector<TokenWindow>& windows() const { return windows_; }
  int64_t layers() const {
    return static_cast<int64_t>(checkpoint_.config().layers.size());
  }

  // What every head does on the text and on random repeats.
  Profile MakeProfile(Context& context) const;
  // The same of this model as it would be before training.
  std::unique_ptr<Model> NewModel(Context& context, uint64_t seed) const;
  Profile ProfileOf(Context& context, const Model& model) const;

  // The windows; every token predicts the next.
  std::vector<MadeSequence> Text() const;
  // `count` blocks of 24 random tokens, repeated once; only what can be told
  // from the first is to be predicted.
  std::vector<MadeSequence> Repeats(RepeatTask task, int64_t count) const;

 private:
  static constexpr int64_t kMostTokens = 8192;

  std::string name_;
  Checkpoint checkpoint_;
  std::vector<TokenWindow> windows_;
};

// Mean loss of each sequence.
std::vector<double> SequenceLosses(Context& context, const Model& model,
                                   std::span<const MadeSequence> sequences,
                                   RunHooks* hooks = nullptr);

// The share of the targets that the model names first, read off after some
// layers (−1: all).
double ShareRight(Context& context, const Model& model,
                  std::span<const MadeSequence> sequences, int64_t layers = -1);

}  // namespace headwise
