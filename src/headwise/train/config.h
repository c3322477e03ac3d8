// The fields of a training run, in one list: the JSON file of `headwise
// train`, its --set, its help and the manifest all come from it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/base/json.h"

namespace headwise {

enum class TrainTask : uint8_t {
  kCausalLm,
  kMaskedLm,
  kTranslation,
  kClassification,
};
constexpr std::array<const char*, 4> FieldWords(TrainTask) {
  return {"causal_lm", "masked_lm", "translation", "classification"};
}

enum class RateSchedule : uint8_t { kCosine, kInverseSqrt, kConstant };
constexpr std::array<const char*, 3> FieldWords(RateSchedule) {
  return {"cosine", "inverse_sqrt", "constant"};
}

enum class HeadDropoutSchedule : uint8_t { kConstant, kLinear, kV };
constexpr std::array<const char*, 3> FieldWords(HeadDropoutSchedule) {
  return {"constant", "linear", "v"};
}

enum class SaveType : uint8_t { kF32, kBF16 };
constexpr std::array<const char*, 2> FieldWords(SaveType) {
  return {"f32", "bf16"};
}

enum class GradientReduction : uint8_t { kTree, kNccl };
constexpr std::array<const char*, 2> FieldWords(GradientReduction) {
  return {"tree", "nccl"};
}

struct TrainConfig {
  TrainTask task = TrainTask::kCausalLm;
  std::string out;
  Json model = Json::object();
  std::string start;
  std::string tokenizer;
  std::vector<std::string> data;
  std::vector<std::string> validation;
  int64_t hold_out = 20;

  int64_t steps = 1000;
  int64_t batch = 8;
  int64_t micro_batch = 8;
  int64_t parts = 1;
  GradientReduction reduce = GradientReduction::kTree;
  int64_t bucket = int64_t{1} << 20;
  bool shard_optimizer = false;
  bool recompute = false;
  int64_t sequence = 256;
  double rate = 1e-3;
  int64_t warmup = 100;
  RateSchedule schedule = RateSchedule::kCosine;
  double final_rate = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;
  double clip = 1.0;
  double dropout = 0;
  std::vector<std::string> freeze;
  Json heads = Json::object();
  double head_dropout = 0;
  HeadDropoutSchedule head_dropout_schedule = HeadDropoutSchedule::kConstant;
  double gate_penalty = 0;
  double gate_rate = 30;
  double balance = 0.01;
  double span_penalty = 0;
  int64_t observe_every = 0;
  double smoothing = 0;
  double mask_share = 0.15;
  double sentence_share = 0;
  uint64_t seed = 1;
  double init_deviation = 0.02;
  bool init_scale_residual = true;

  double repeat_share = 0;
  double repeat_share_late = 0;
  double repeat_change = 0.3;
  int64_t repeat_min = 8;
  int64_t repeat_max = 120;
  double repeat_random = 0.5;

  int64_t evaluate_every = 100;
  int64_t evaluate_sequences = 64;
  int64_t save_every = 100;
  int64_t keep_every = 0;
  SaveType save_type = SaveType::kF32;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("task", self.task,
          "causal_lm, masked_lm, translation of tab-separated pairs, or "
          "classification of texts with a label behind a tab");
    visit("out", self.out, "folder of the run: checkpoints, then the model");
    visit("model", self.model,
          "config.json of the model, as Hugging Face writes it; vocab_size "
          "follows the tokenizer where it is not given");
    visit("start", self.start,
          "model to train further; empty: a new one. What model says must be "
          "so there too");
    visit("tokenizer", self.tokenizer, "tokenizer.json or a folder with one");
    visit("data", self.data,
          "text files or folders of them (.gz, .xz, .zst, .jsonl too); or "
          "pairs");
    visit("validation", self.validation,
          "files to evaluate on; empty: some of data are held out");
    visit("hold_out", self.hold_out,
          "hold out every so many-th file (or pair) of data; of fewer files, "
          "the end; 0: nothing");
    visit("steps", self.steps, "optimizer steps");
    visit("batch", self.batch, "sequences (or pairs) a step");
    visit("micro_batch", self.micro_batch,
          "of them together in memory; a divisor of batch");
    visit("parts", self.parts,
          "parts of a batch whose gradients add in a fixed order; under mpirun "
          "each rank takes some, and the numbers are those of one process");
    visit("reduce", self.reduce,
          "how ranks add up gradients: tree, by messages and in a fixed order, "
          "so that the numbers are those of one process; or nccl, between "
          "GPUs, faster, in an order that depends on the number of ranks");
    visit("bucket", self.bucket,
          "tree: values of the gradient that ranks add up at a time, "
          "while the backward of their last part goes on; no number depends on "
          "it");
    visit(
        "shard_optimizer", self.shard_optimizer,
        "under mpirun: each rank keeps its share of AdamW's moments alone and "
        "steps that part of the parameters, which then travel: less memory, "
        "the same numbers");
    visit("recompute", self.recompute,
          "run layers again in the backward instead of keeping what they made: "
          "less memory, more time, the same numbers");
    visit("sequence", self.sequence, "tokens of a sequence");
    visit("rate", self.rate, "learning rate after the warm-up");
    visit("warmup", self.warmup, "steps in which the rate rises to it");
    visit("schedule", self.schedule, "cosine, inverse_sqrt or constant");
    visit("final_rate", self.final_rate,
          "where cosine ends, as a share of the rate");
    visit("beta1", self.beta1, "AdamW: memory of gradients");
    visit("beta2", self.beta2, "AdamW: memory of their squares");
    visit("epsilon", self.epsilon, "AdamW: added to the divisor");
    visit("decay", self.decay, "AdamW: weight decay of matrices");
    visit("clip", self.clip, "largest norm of the gradient; 0: any");
    visit("dropout", self.dropout,
          "share of values dropped after the embeddings and each half layer");
    visit("freeze", self.freeze,
          "parts that do not learn: \"embedding\", \"layer.2\", "
          "\"layer.0-3\", \"layer.2.attention\", \"layer.2.mlp\", "
          "\"final\", \"head\", in encoder–decoders with \"encoder.\" or "
          "\"decoder.\" before it; gates and spans still learn. Nothing is "
          "computed backwards below the lowest part that learns");
    visit("heads", self.heads,
          "how heads are chosen, over what the model says (the \"headwise\" "
          "object of its config.json): {\"gates\": \"hard_concrete\"}, or "
          "{\"gates\": \"mixture\", \"shared_heads\": 2, \"active_heads\": 5}, "
          "and learned spans {\"span_ramp\": 32}. Of the run alone, heads that "
          "are told what to attend to: {\"assign\": [{\"layer\": 2, \"head\": "
          "3, \"relation\": \"previous\", \"weight\": 1}]} adds weight times "
          "the mean of −ln attention on the relation's key; relations: "
          "previous, next, self, first, last, same-token (the nearest, before "
          "it if there is one), induction (what came after the last same "
          "token)");
    visit("head_dropout", self.head_dropout,
          "probability of a whole head to be dropped, for each sequence; the "
          "others are scaled up, and one is always kept");
    visit("head_dropout_schedule", self.head_dropout_schedule,
          "constant, linear (rises from 0) or v (falls to 0 in the warm-up, "
          "then rises)");
    visit("gate_penalty", self.gate_penalty,
          "hard_concrete: nats that an open head costs");
    visit("gate_rate", self.gate_rate,
          "hard_concrete: learning rate of gates, as a multiple of rate");
    visit("balance", self.balance, "mixture: weight of the balance loss");
    visit("span_penalty", self.span_penalty,
          "span_ramp: nats that a head costs which sees the whole context");
    visit("smoothing", self.smoothing, "label smoothing");
    visit("mask_share", self.mask_share,
          "masked_lm: share of tokens to guess: of ten eight are masked, one "
          "becomes a random token and one stays. Special and unknown ones are "
          "not guessed");
    visit("sentence_share", self.sentence_share,
          "masked_lm: share of the sequences that are read sentence by "
          "sentence (up to a . ! or ?), each with the model's first and last "
          "token around it");
    visit("seed", self.seed, "of weights, order and dropout");
    visit("init_deviation", self.init_deviation, "of new matrices");
    visit("init_scale_residual", self.init_scale_residual,
          "new output matrices / √(2·layers)");
    visit("repeat_share", self.repeat_share,
          "share of sequences that repeat one block, at first");
    visit("repeat_share_late", self.repeat_share_late, "the same, later");
    visit("repeat_change", self.repeat_change,
          "share of the steps after which it is later");
    visit("repeat_min", self.repeat_min, "shortest repeated block, in tokens");
    visit("repeat_max", self.repeat_max, "longest");
    visit("repeat_random", self.repeat_random,
          "share of the blocks that are random tokens, not text");
    visit("evaluate_every", self.evaluate_every,
          "steps between evaluations; the one with the lowest loss is kept as "
          "a checkpoint");
    visit("evaluate_sequences", self.evaluate_sequences,
          "sequences (or pairs) of an evaluation");
    visit("observe_every", self.observe_every,
          "steps between observations of every head (heads.jsonl, heads.svg) "
          "and of every role (roles.jsonl, roles.svg); 0: none");
    visit("save_every", self.save_every, "steps between checkpoints");
    visit("keep_every", self.keep_every,
          "keep the checkpoints of every so many-th step too; 0: only the "
          "last and the best");
    visit("save_type", self.save_type, "f32 or bf16, of the finished model");
  }
};

// The file, with `settings` ("rate=1e-4", "model.hidden_size=128") applied.
// Throws Error(kInvalidArgument) for an unknown key (with the nearest known
// one), a value of the wrong type, or one that makes no sense.
TrainConfig ReadTrainConfig(const std::filesystem::path& file,
                            const std::vector<std::string>& settings);

// The same of a file's contents; where: what they are called in errors.
TrainConfig ReadTrainConfig(Json json, const std::string& where,
                            const std::vector<std::string>& settings);

// Throws Error(kInvalidArgument) naming the first field that makes no sense.
void CheckTrainConfig(const TrainConfig& config, const std::string& where);

// Fields whose change would change the run, "steps: 100, now 200" each; a
// resumed run must have none.
std::vector<std::string> Differences(const Json& before,
                                     const TrainConfig& now);

}  // namespace headwise
