// What is found out about heads: roles, importance, what a prediction comes
// from, which heads are alike, which feed which, and the weights of any head.
// Results are plain data; the functions at the end make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"
#include "headwise/observation.h"
#include "headwise/profile.h"
#include "headwise/tensor.h"

namespace headwise {

// ---- Roles.

inline constexpr const char* kNoRole = "no role";

/// What ablating the head did to the behaviour that its role would explain.
struct CausalCheck {
  std::string behaviour = {};  ///< "loss on repeated copies"
  double before = 0;
  double after = 0;
  std::string text = {};  ///< "loss on repeated copies 2.31 → 4.80"
};

struct Role {
  std::string name = {};  ///< "previous-token", "offset -2", "syntactic(nsubj)"
  double score = 0;       ///< mean, with its 95 % interval over sequences
  double low = 0;         ///< NaN for fewer than two sequences
  double high = 0;
  double count = 0;  ///< rows, words or cases
  /// Holds only with the sinks left out; `content_mass` is then the mean mass
  /// outside them.
  bool sink_excluded = false;
  double content_mass = 1;
  std::string material = {};  ///< what was run: "text", "random repeats"
  std::string evidence = {};  ///< "uniform .02, largest key in 97 % of rows"
  double strength = 0;  ///< how far above its threshold, 1 at the most possible
  /// How attention is spread ("broad"), not what it is for.
  bool shape = false;
  std::optional<CausalCheck> check = {};
};

struct HeadRoles {
  HeadRef head = {};
  std::vector<Role> roles = {};  ///< strongest first; empty: no role
  /// Without a role: what came closest, "local .61 of .70"; may be "".
  std::string closest = {};

  /// Whether a role says what the head does; a mere shape does not.
  HEADWISE_API bool HasFunction() const;
};

/// Heads with a role that says what they do, and heads of which only the shape
/// of their attention is known.
struct RoleCounts {
  int64_t with_function = 0;
  int64_t shape_only = 0;
};
HEADWISE_API RoleCounts CountRoles(std::span<const HeadRoles> heads);

/// Which of a metric's variants roles are judged by.
enum class RepeatForm : uint8_t {
  k25x4,  ///< 25 distinct random tokens four times over
  k50x2,  ///< 50 of them twice: the form of older figures, with lower scores
};
HEADWISE_API const char* Name(RepeatForm form);  ///< "25x4"

struct RoleForms {
  RepeatForm repeats = RepeatForm::k25x4;  ///< of induction
  /// Positions count words instead of tokens, where the profile has them
  /// (profile --words).
  bool words = false;
};

/// A head that needs all of the past.
struct FarReader {
  HeadRef head = {};
  std::string why = {};  ///< "induction .93", "far .41"
};

/// What a cache keeps whole (KvPolicy): self-attention heads with a role that
/// finds its key wherever it stands (induction, retrieval, duplicate,
/// coreference), and, of a profile that has text, those whose mean mass at
/// distances of `window` and more, less that on the first token, is 0.3 at
/// least. Distances are known by powers of two: a window between two counts as
/// the larger.
HEADWISE_API std::vector<FarReader> FarReaders(const Profile& profile,
                                               std::span<const HeadRoles> roles,
                                               int64_t window);

/// "previous-token", "previous-token (when not at the sink, c = .21)"
HEADWISE_API std::string ToString(const Role& role);

// ---- Importance.

/// A value with its 95 % interval; −∞ and ∞ where there is no telling.
struct Interval {
  double value = 0;
  double low = 0;
  double high = 0;
};

enum class Criterion : uint8_t {
  kAblationZero,
  kAblationMean,
  kAblationResample,
  kActivation,
  kWeightsOv,
  kWeightsQk,
  kGradient,
  kGradientToken,
  kGradientBatch,
};

/// "ablation-zero", …
HEADWISE_API const char* Name(Criterion criterion);
/// What the number is, in one sentence.
HEADWISE_API const char* Describe(Criterion criterion);

enum class LossKind : uint8_t {
  kNextToken,        ///< causal models
  kMaskedToken,      ///< encoders with a masked-LM head
  kTargetTokens,     ///< encoder–decoders, teacher forced
  kEmbeddingCosine,  ///< encoders without a head
  kContrastive,      ///< the same, for gradients: texts against each other
};
/// "next-token", …: the name that is printed beside every figure.
HEADWISE_API const char* Name(LossKind kind);
/// What it is, in one sentence.
HEADWISE_API const char* Describe(LossKind kind);

/// In order of precedence. A quiet head is one whose Δloss is as good as 0: the
/// interval's ends are below 1 % of the loss and it holds 0, or |Δ| is below
/// 0.1 % of the loss.
enum class HeadClass : uint8_t {
  kCritical,   ///< the lower end of Δloss is above 1 % of the loss
  kNegative,   ///< Δloss < 0 by more than a least size, on two splits
  kRedundant,  ///< quiet, and another head has the same pattern
  kBackup,     ///< closing it with another costs more than both apart
  kNoise,      ///< quiet, and no role
  kAuxiliary,  ///< none of these
};
HEADWISE_API const char* Name(HeadClass kind);
HEADWISE_API const char* Describe(HeadClass kind);

struct NegativeHead {
  size_t head = 0;  ///< of Ranking::heads
  Interval selection = {};
  Interval confirmation = {};
};

enum class HurtAnswer : uint8_t {
  kNone,         ///< every head's interval ends above the least size
  kSome,         ///< these do
  kNotTested,    ///< too little text, or no ablation
  kNotTestable,  ///< this loss cannot be lowered
};
/// "none", "some", "not-tested", "not-testable"
HEADWISE_API const char* Name(HurtAnswer answer);

struct Hurting {
  HurtAnswer answer = HurtAnswer::kNotTested;
  std::string reason = "no head was closed";  ///< of the last two answers
  std::vector<NegativeHead> heads = {};
  /// Heads of which the text does not tell: an effect of the least size is
  /// within their interval.
  std::vector<size_t> undecided = {};
  double predictions = 0;  ///< that the answer rests on: tokens, or examples
  /// The smallest effect that could have been told from 0 of every head: the
  /// widest half of an interval among those that reach below 0; 0: none does.
  double smallest_seen = 0;
};

struct CriterionResult {
  Criterion criterion = Criterion::kAblationZero;
  /// One a head. Criteria without sequences to compare (activation, weights)
  /// have low = high = value.
  std::vector<Interval> heads = {};
  double gini = 0;
  double effective = 0;  ///< heads, exp(entropy of the shares)
};

struct LayerImportance {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t layer = 0;
  Interval delta = {};  ///< all heads of the layer closed
};

/// Two heads closed together.
struct PairEffect {
  size_t a = 0;
  size_t b = 0;
  Interval delta = {};
  Interval interaction = {};  ///< delta − what closing each alone costs
};

struct RankCorrelation {
  size_t a = 0;  ///< of Ranking::criteria
  size_t b = 0;
  double spearman = 0;
  double kendall = 0;
};

struct Ranking {
  LossKind loss_kind = LossKind::kNextToken;
  double loss = 0;  ///< of the whole model, a prediction
  /// What gradients are of, where they were asked for.
  std::optional<LossKind> gradient_loss = {};
  int64_t sequences = 0;
  int64_t tokens = 0;
  std::vector<HeadRef> heads = {};
  std::vector<CriterionResult> criteria = {};  ///< in the order asked for
  std::vector<RankCorrelation> correlations = {};

  /// The rest is by the first ablation among the criteria; empty without one.
  std::optional<size_t> primary = {};  ///< of criteria
  std::vector<HeadClass> classes = {};
  Hurting hurting = {};
  double least_negative = 0;  ///< Δloss that is below −this, on both halves
  std::vector<LayerImportance> layers = {};
  std::vector<PairEffect> pairs = {};
  /// The part of a head's direct effect that later heads take over when it is
  /// closed; empty where the direct effect is not certain or there is none.
  std::vector<std::optional<Interval>> self_repair = {};
  int64_t heads_for_90 = 0;  ///< the fewest that hold 90 % of the importance
  /// What could not be told, and why; what a figure does not hold.
  std::vector<std::string> notes = {};
};

/// "14 of 48 heads carry 90 % of the importance; 3 hurt."
HEADWISE_API std::string Summary(const Ranking& ranking);

// ---- Taking heads out (train.h: HeadPruner).

/// How gates were learned that rank heads (PruneJob::by).
struct GateLearning {
  int64_t steps = 200;
  /// What all open heads together cost, as a share of the whole model's loss.
  double penalty = 0.2;
  uint64_t seed = 0;
  /// Learning rate of the weights, which learn along; 0: they stay.
  double rate = 0;

  bool tuned() const { return rate > 0; }
  bool operator==(const GateLearning&) const = default;
};

/// Heads that are to leave a model ("headwise.plan/1").
struct PruningPlan {
  std::string model = {};             ///< as it was called, for people
  std::string model_hash = {};        ///< Transformer::hash
  std::string criterion = {};         ///< its name, or "given"
  std::vector<HeadRef> removed = {};  ///< these leave
  /// One a head of the model, in HeadsOf's order: larger matters more. Empty:
  /// nobody ranked them.
  std::vector<double> scores = {};
  std::string search = {};  ///< how they were found, for people; ""
  /// Of gates. Tuned: the heads leave the weights that learned along.
  std::optional<GateLearning> gates = {};
};

struct CurvePoint {
  int64_t removed = 0;
  double loss = 0;  ///< a prediction
};

struct CurveOrder {
  std::string name = {};  ///< "importance", "reversed", "random 1", …
  std::vector<CurvePoint> points = {};
  double area = 0;  ///< the mean loss over the heads removed, by trapezia
};

/// One piece of work of two models, timed side by side.
struct PairTiming {
  std::string what = {};  ///< "prefill, 16 × 512 tokens"
  double tokens = 0;      ///< of one call
  double before_ms = 0;
  double after_ms = 0;
};

/// Loss against heads that have left, for several orders of leaving.
struct PruningCurve {
  LossKind kind = LossKind::kNextToken;
  std::string domain = {};  ///< the text's name
  int64_t heads = 0;
  std::vector<CurveOrder> orders = {};  ///< importance, reversed, random ones
  /// Over the random orders: their mean area with a 95 % interval of Student's
  /// t, and importance less that mean, with the same interval around it.
  Interval random_area = {};
  Interval gain = {};
  std::vector<PairTiming> speeds = {};  ///< of importance, one a point; or none
};

/// How wrong an attention's output is after heads left, on text that was not
/// used, over the variance of the original's: 1 is what its mean would leave.
struct LayerError {
  std::string site = {};
  double none = 0;    ///< heads removed, nothing done
  double fold = 0;    ///< their means in the bias
  double fitted = 0;  ///< least squares
  double ridge = 0;   ///< the one chosen, over the mean variance of an input
};

// ---- Patching.

struct PatchCase {
  std::vector<int32_t> prompt = {};
  /// As many tokens as the prompt; empty in all cases: nothing is patched.
  std::vector<int32_t> counterfactual = {};
  int32_t answer = 0;  ///< whose logit …
  int32_t other = 0;   ///< … is compared with this one's
};

/// The difference of the logits after the last token of a prompt, cut into what
/// adds up to it. The final norm's scale is taken as it was.
struct LogitParts {
  /// ⟨z_h W_O^h / σ, W_U[answer] − W_U[other]⟩
  std::vector<double> heads = {};
  std::vector<double> mlps = {};    ///< one a layer
  std::vector<double> biases = {};  ///< of W_O, one a layer
  double embedding = 0;
  double constant = 0;  ///< of the final norm's and the vocabulary's biases

  HEADWISE_API double Sum() const;
};

struct PatchResult {
  int64_t cases = 0;
  /// Texts that were left out since they cannot be compared: those whose
  /// counterfactual has another number of tokens, and those whose answers begin
  /// with the same one.
  int64_t unequal = 0;
  int64_t ambiguous = 0;
  std::vector<HeadRef> heads = {};
  Interval difference = {};  ///< logit of answer − other, after the prompt
  Interval counterfactual = {};  ///< after the counterfactual
  double preferred = 0;    ///< share of prompts whose answer's logit is larger
  LogitParts direct = {};  ///< means over cases
  /// The difference lost when the head's output is the counterfactual's; empty
  /// without counterfactuals. share: of difference − counterfactual, in all.
  std::vector<Interval> patched = {};
  std::vector<double> share = {};
};

// ---- Likeness.

/// Two heads that look alike.
struct HeadPair {
  size_t a = 0, b = 0;  ///< a < b, indices into heads
  double bhattacharyya = 0, jsd = 0, cka = 0, ov_read = 0, ov_write = 0;
};

// ---- Composition.

/// What of the receiver is fed.
enum class HeadInput : uint8_t { kQuery, kKey, kValue };
inline constexpr HeadInput kHeadInputs[] = {HeadInput::kQuery, HeadInput::kKey,
                                            HeadInput::kValue};
/// "q", "k", "v"
HEADWISE_API const char* Name(HeadInput input);

struct HeadEdge {
  size_t sender = 0;  ///< indices into Composition::heads
  size_t receiver = 0;
  HeadInput input = HeadInput::kQuery;
  double score = 0;
  /// Relative change of the receiver's queries, keys or values without the
  /// sender, √(Σ‖Δ‖² / Σ‖·‖²) over tokens; NaN where not measured.
  double effect = 0;
};

/// An edge as a list shows it, and whom it feeds: one head, or all that share
/// what is fed.
struct EdgeRow {
  HeadEdge edge = {};  ///< the strongest of them
  std::vector<size_t> receivers = {};
};

struct Composition {
  std::vector<HeadRef> heads = {};
  /// The score of a sender turned at random: 1/√width exactly, in the mean of
  /// squares, whatever the matrices.
  double baseline = 0;
  bool rotary = false;
  bool query_norms = false;  ///< queries and keys are normed head by head
  /// Of each head, the first of those that share its keys and values.
  std::vector<size_t> key_group = {};
  /// Every pair that can feed and has weights; highest score first. A head that
  /// writes or reads nothing has no edges.
  std::vector<HeadEdge> edges = {};
  int64_t effect_tokens = 0;  ///< 0: effects were not measured
  const char* ablation = "";  ///< how the sender was taken away

  bool by_effect = false;  ///< edges are in the order of effects

  double Over(const HeadEdge& edge) const { return edge.score - baseline; }
  /// How many edges to list or draw: the first `top`, but none that chance
  /// gives just as well.
  HEADWISE_API size_t Shown(size_t top) const;
  /// The first `top` rows to list: edges that Shown would give, those into
  /// shared keys or values as one.
  HEADWISE_API std::vector<EdgeRow> Rows(size_t top) const;
  /// The heads that share this one's keys and values, itself among them.
  HEADWISE_API std::vector<size_t> Sharing(size_t head) const;
};

/// Which heads resemble which. Matrices are f64 [heads, heads], NaN where two
/// heads cannot be compared: of different kinds or masks, or (output, content)
/// of a head that gives nothing.
struct HeadSimilarity {
  std::vector<HeadRef> heads = {};
  int64_t tokens = 0;         ///< of text that were run
  int64_t rows = 0;           ///< that bhattacharyya is a mean of
  int64_t sampled_rows = 0;   ///< that jsd is a mean of
  int64_t samples = 0;        ///< tokens of cka
  Tensor bhattacharyya = {};  ///< of attention rows
  Tensor jsd = {};            ///< Jensen–Shannon divergence, nats, 0 to ln 2
  Tensor cka = {};            ///< of outputs
  Tensor ov_read = {};        ///< of what W_V reads: mean squared cosine
  Tensor ov_write = {};       ///< of what W_O writes
  std::vector<int64_t> group = {};     ///< of like heads, one a head
  std::vector<int64_t> order = {};     ///< heads such that like ones are near
  Tensor map = {};                     ///< f64 [heads, 2]: like heads are near
  std::vector<HeadPair> closest = {};  ///< least divergence first, at most 50
  std::vector<HeadPair> twins = {};    ///< every pair below the job's `twin`
  std::string json = {};               ///< `headwise similar --json`
};

/// The weights of one head, in the mathematician's orientation (x is a row):
/// q = x·W_Q, k = x·W_K, v = x·W_V, and what it writes is v·W_O. Heads of one
/// group share W_K and W_V. f32 on the host. Gains of norms of queries and keys
/// are part of W_Q and W_K.
struct HeadMatrices {
  Tensor q = {};   ///< W_Q [d, D]
  Tensor k = {};   ///< W_K [d, D]; cross-attention: of the source's width
  Tensor v = {};   ///< W_V [d, E]
  Tensor o = {};   ///< W_O [E, d]; empty where the layer has none
  Tensor qk = {};  ///< W_Q·W_Kᵀ [d, d]: how it matches, at equal positions
  Tensor ov = {};  ///< W_V·W_O [d, d]: what it writes of what it reads
};

// ---- What to ask for.

/// How roles are judged.
struct RoleJob {
  /// "induction=0.5": another threshold of a role, argmax or content-mass.
  std::vector<std::string> thresholds = {};
  RepeatForm repeats = RepeatForm::k25x4;
  bool words = false;  ///< positions count words, where the profile has them
};

struct ConfirmJob {
  int64_t sequences = 8;  ///< of random repeats, for every head
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

struct RankJob {
  /// ablation-zero, ablation-mean, ablation-resample, activation, weights
  /// (or weights-ov, weights-qk), gradient, gradient-token, gradient-batch.
  /// The first ablation gives classes.
  std::vector<std::string> by = {"ablation-mean", "activation", "weights"};
  bool pairs = false;        ///< also close the top 24 heads in pairs
  bool self_repair = false;  ///< also what later heads take over
  bool per_layer = false;    ///< gradients are divided by their layer's norm
  double least_negative = 0.001;  ///< share of the loss that counts as hurting
  /// Tells heads without a role (noise); of this very model. May be null.
  const Profile* profile = nullptr;
  /// Tells heads that look alike (redundant), of this very model; null: found
  /// on the first windows.
  const HeadSimilarity* similarity = nullptr;
  uint64_t seed = 0;
  /// A file in which a ranking that is stopped or killed keeps what it has; it
  /// leaves when the ranking is whole. "": none.
  std::string partial = {};
  double checkpoint_seconds = 60;  ///< between copies; 0: only when stopped
  /// Go on with that file, of the same model, text and job: the result is that
  /// of an uninterrupted ranking, bit for bit.
  bool resume = false;
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

/// A prompt, its counterfactual and two answers, in words.
struct PatchText {
  std::string prompt = {};
  std::string counterfactual = {};  ///< of as many tokens; "": nothing patched
  std::string answer = {};          ///< whose first token …
  std::string other = {};           ///< … is compared with this one's
};

struct PatchJob {
  uint64_t seed = 0;
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

struct SimilarityJob {
  int64_t rows = 128;       ///< queries whose divergence is computed
  int64_t samples = 256;    ///< tokens whose outputs are compared
  int64_t min_visible = 8;  ///< rows that see fewer keys are left out
  double twin = 0.05;       ///< divergence below which heads are twins
  double cut = 0.3;         ///< groups: mean Hellinger distance at most this
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

struct CompositionJob {
  bool by_effect = false;  ///< edges in the order of effects; needs a text
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

// ---- Finding out. All but FindRoles run the model, in its own thread rules
// ---- (model.h), and throw Error: kInvalidArgument for a model under an edit
// ---- or a hook, kUnsupported on a device that an analysis does not run on,
// ---- kCancelled when stopped. They give the command line's numbers, bit for
// ---- bit.

/// Every head of a model: self, then decoder, then cross, by layer and head.
HEADWISE_API std::vector<HeadRef> HeadsOf(const Transformer& model);

/// "5.1,6.0", "cross:2.3". Throws Error(kInvalidArgument) with the valid range
/// for a head that the model does not have.
HEADWISE_API std::vector<HeadRef> ParseHeads(std::string_view text,
                                             const Transformer& model);

/// One a head, in the profile's order. A head has a role where the whole 95 %
/// interval of its score is past the threshold.
HEADWISE_API std::vector<HeadRoles> FindRoles(const Profile& profile,
                                              const RoleJob& job = {});

/// Sets Role::check: what switching the head off does to the behaviour that the
/// role would explain, where there is one to look at.
HEADWISE_API void ConfirmRoles(Transformer& model,
                               std::vector<HeadRoles>& heads,
                               const ConfirmJob& job = {});

/// How much every head matters on a text, by criteria side by side.
HEADWISE_API Ranking RankHeads(Transformer& model, const TextInput& text,
                               const RankJob& job = {});

/// Which heads predictions come from. Of several texts, those that cannot be
/// compared are left out and counted; one that is alone is an error.
HEADWISE_API PatchResult PatchHeads(Transformer& model,
                                    std::span<const PatchText> cases,
                                    const PatchJob& job = {});
HEADWISE_API PatchResult PatchHeads(Transformer& model,
                                    std::span<const PatchCase> cases,
                                    const PatchJob& job = {});

/// Which heads are alike on a text.
HEADWISE_API HeadSimilarity CompareHeads(Transformer& model,
                                         const TextInput& text,
                                         const SimilarityJob& job = {});

/// Which heads feed which, from the weights alone; with a text also how much
/// the receiver's input changes without the sender.
HEADWISE_API Composition ComposeHeads(Transformer& model,
                                      const CompositionJob& job = {});
HEADWISE_API Composition ComposeHeads(Transformer& model, const TextInput& text,
                                      const CompositionJob& job = {});

/// Copies of one head's weights. Throws Error: kInvalidArgument for a head that
/// the model does not have, kCorrupt for weights that are not finite.
HEADWISE_API HeadMatrices WeightsOfHead(Transformer& model,
                                        const HeadRef& head);

/// For machines, as the commands' --json prints it (without "model").
/// Metrics of single syntactic relations are left out unless `every_metric`.
HEADWISE_API std::string JsonText(const Profile& profile,
                                  std::span<const HeadRoles> roles,
                                  bool every_metric = false);
HEADWISE_API std::string JsonText(const Ranking& ranking);
HEADWISE_API std::string JsonText(const PatchResult& result);
/// With the first `top` edges, above chance or not; 0: all.
HEADWISE_API std::string JsonText(const Composition& composition,
                                  size_t top = 0);

}  // namespace headwise
