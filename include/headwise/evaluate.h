// A model beside itself with heads closed, beside another model, or with a
// cache that keeps parts of the text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/cache.h"
#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/progress.h"
#include "headwise/text_input.h"

namespace headwise {

class Transformer;  // model.h

/// One figure of the whole model and of the other. The change is taken sequence
/// by sequence, so that what makes one hard cancels out.
struct Compared {
  Interval whole = {};
  Interval other = {};
  Interval change = {};
};

struct EvaluateJob {
  std::vector<HeadRef> closed = {};  ///< none: the other model is the whole one
  HeadMeans means = {};  ///< their replacements (MeanOutputs); null: 0
  /// Means over this text stand in for them instead, measured first.
  std::optional<TextInput> mean_text = {};
  uint64_t seed = 0;  ///< random numbers of masks and intervals
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("seed", self.seed, "of masks and intervals");
    PartialWork::VisitFields(self.partial, visit);
  }
};

struct HeadEvaluation {
  LossKind kind = LossKind::kNextToken;
  int64_t sequences = 0;
  int64_t tokens = 0;
  Compared loss = {};  ///< nats a prediction
  /// The share of the predictions whose likeliest token is the right one;
  /// nothing for models that predict none.
  std::optional<Compared> right = {};
  /// Encoder–decoders: of greedy translations, 0 to 100.
  std::optional<Compared> bleu = {};
};

/// The figures of `headwise evaluate`. Throws Error: as Loss does;
/// kInvalidArgument for heads that the model does not have or that are named
/// twice, and for a model under an edit or a hook.
HEADWISE_API HeadEvaluation EvaluateHeads(Transformer& model,
                                          const TextInput& text,
                                          const EvaluateJob& job = {});

/// How alike another model's answers are to the whole one's, whatever the text
/// says.
struct Agreement {
  /// Models that predict tokens: KL(whole ‖ other), nats a prediction, …
  std::optional<Interval> divergence = {};
  /// … and the share of predictions with the same likeliest token.
  std::optional<Interval> same_token = {};
  int64_t sentences = 0;  ///< encoders: of the text, at most 400
  /// Cosine of a sentence's two mean-pooled embeddings, …
  std::optional<Interval> cosine = {};
  /// … and the share whose nearest other sentence is the same.
  std::optional<Interval> same_neighbour = {};
};

/// Another model beside the whole one on one text.
struct ModelJudgement {
  std::string domain = {};  ///< the text's name
  /// Other parts of this text chose heads or weights: on other text the model
  /// may do worse.
  bool chose = false;
  LossKind kind = LossKind::kNextToken;
  int64_t sequences = 0;
  int64_t tokens = 0;
  Compared loss = {};  ///< nats a prediction
  Agreement agreement = {};
};

/// Another model, as a smaller one that was made of it, beside the whole one,
/// on each text by itself; both read it by the whole one's tokenizer. Throws
/// Error: as Loss does; kInvalidArgument for a model of another kind or
/// vocabulary, and for one under an edit or a hook.
HEADWISE_API std::vector<ModelJudgement> CompareModels(
    Transformer& whole, Transformer& other, std::span<const TextInput> texts,
    const LossJob& job = {});

struct LabelEvaluation {
  int64_t texts = 0;
  Compared loss = {};      ///< nats a text
  Compared accuracy = {};  ///< the share of texts whose class is right
};

/// Evaluates a classifier (ModelInfo::classifies) on files of lines
/// text`<TAB>`label; closed heads give 0. Throws Error(kInvalidArgument) for
/// labels that the model does not know, for means, and for texts that are not
/// files.
HEADWISE_API LabelEvaluation EvaluateLabels(Transformer& model,
                                            const TextInput& text,
                                            const EvaluateJob& job = {});

struct CacheEvaluation {
  int64_t sequences = 0;
  int64_t tokens = 0;
  Compared loss = {};     ///< nats a prediction; other: with the policy
  Compared right = {};    ///< shares of the predictions
  CacheBytes bytes = {};  ///< at the end of the longest sequence
};

/// A text read through a cache that heads keep parts of, beside the whole
/// cache. Throws Error: as Transformer::Loss does; kUnsupported for models that
/// are not causal; kInvalidArgument for a model under an edit or a hook.
HEADWISE_API CacheEvaluation EvaluateCache(Transformer& model,
                                           const TextInput& text,
                                           const KvPolicy& policy,
                                           const LossJob& job = {});

}  // namespace headwise
