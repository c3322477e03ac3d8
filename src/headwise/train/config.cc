// Reading and checking of training configurations. Door: config.h.
#include "headwise/train/config.h"

#include <cmath>
#include <set>
#include <string_view>
#include <type_traits>

#include "headwise/base/fields.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/train/head_relations.h"

namespace headwise {
namespace {

[[noreturn]] void Refuse(const std::string& where, const std::string& expected,
                         const std::string& found) {
  throw Error(ErrorCode::kInvalidArgument, {where, expected, found, ""});
}

// Beyond these, counts of sequences and streams of random numbers would not fit
// 64 bits.
constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr int64_t kMostOfAStep = int64_t{1} << 24;
// Messages have fewer than 2^31 bytes.
constexpr int64_t kMostOfABucket = int64_t{1} << 28;

void RequireFinite(const TrainConfig& config, const std::string& where) {
  TrainConfig::VisitFields(
      config, [&](const char* name, const auto& value, const char*) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
          if (std::isfinite(value)) return;
          Refuse(where, std::string(name) + ": a finite number",
                 std::to_string(value));
        }
      });
}

// "key=value": the value as JSON where it is, else as text.
void Apply(Json& json, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    Refuse("setting", "key=value", setting);
  }
  const std::string text = setting.substr(equals + 1);
  Json value = text;
  try {
    value = Json::parse(text);
  } catch (const Error&) {
    // It stays the text.
  }
  Json* at = &json;
  std::string_view key = std::string_view(setting).substr(0, equals);
  for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.')) {
    at = &(*at)[std::string(key.substr(0, dot))];
    if (!at->is_object() && !at->is_null()) {
      Refuse("setting", "a key of an object", setting);
    }
    key.remove_prefix(dot + 1);
  }
  (*at)[std::string(key)] = std::move(value);
}

}  // namespace

TrainConfig ReadTrainConfig(const std::filesystem::path& file,
                            const std::vector<std::string>& settings) {
  return ReadTrainConfig(ReadJson(file), file.string(), settings);
}

TrainConfig ReadTrainConfig(Json json, const std::string& where,
                            const std::vector<std::string>& settings) {
  if (!json.is_object()) Refuse(where, "an object", Describe(json));
  for (const std::string& setting : settings) Apply(json, setting);
  TrainConfig config;
  FieldsFromJson(json, config, where);
  CheckTrainConfig(config, where);
  return config;
}

void CheckTrainConfig(const TrainConfig& c, const std::string& where) {
  auto check = [&](bool fine, const char* expected, const auto& found) {
    if (!fine) Refuse(where, expected, Json(found).dump());
  };
  check(!c.out.empty(), "out: a folder", c.out);
  check(!c.data.empty(), "data: at least one file", c.data);
  check(!c.tokenizer.empty() || !c.start.empty(),
        "tokenizer: a tokenizer.json (headwise vocab makes one)", c.tokenizer);
  check(c.model.is_object() && (!c.model.empty() || !c.start.empty()),
        "model: a configuration, unless start names a model", c.model);
  RequireFinite(c, where);
  check(c.steps >= 1 && c.steps <= kMostSteps, "steps from 1 to 2^40", c.steps);
  check(c.batch <= kMostOfAStep, "a batch of at most 2^24", c.batch);
  check(c.sequence <= kMostOfAStep, "a sequence of at most 2^24 tokens",
        c.sequence);
  check(c.micro_batch >= 1 && c.batch >= 1 && c.batch % c.micro_batch == 0,
        "micro_batch: a divisor of batch", c.micro_batch);
  // Divided twice: the product may not fit 64 bits.
  check(c.parts >= 1 && c.batch / c.micro_batch % c.parts == 0,
        "parts: batch / (parts · micro_batch) a whole number", c.parts);
  check(c.bucket >= 1 && c.bucket <= kMostOfABucket,
        "a bucket of 1 to 2^28 values", c.bucket);
  check(c.sequence >= 2, "sequence of at least 2 tokens", c.sequence);
  check(c.rate > 0, "a rate above 0", c.rate);
  check(c.warmup >= 0, "warmup of at least 0 steps", c.warmup);
  auto share = [&](double value, const char* expected) {
    check(value >= 0 && value <= 1, expected, value);
  };
  share(c.final_rate, "final_rate in [0, 1]");
  check(c.beta1 >= 0 && c.beta1 < 1, "beta1 in [0, 1)", c.beta1);
  check(c.beta2 >= 0 && c.beta2 < 1, "beta2 in [0, 1)", c.beta2);
  check(c.epsilon > 0, "an epsilon above 0", c.epsilon);
  check(c.decay >= 0, "a decay of at least 0", c.decay);
  check(c.clip >= 0, "clip of at least 0", c.clip);
  check(c.dropout >= 0 && c.dropout < 1, "dropout in [0, 1)", c.dropout);
  check(c.heads.is_object(), "heads: an object", c.heads);
  ReadAssignments(c.heads, where);
  check(c.head_dropout >= 0 && c.head_dropout < 1, "head_dropout in [0, 1)",
        c.head_dropout);
  check(c.gate_penalty >= 0, "gate_penalty of at least 0", c.gate_penalty);
  check(c.gate_rate > 0, "a gate_rate above 0", c.gate_rate);
  check(c.balance >= 0, "balance of at least 0", c.balance);
  check(c.span_penalty >= 0, "span_penalty of at least 0", c.span_penalty);
  check(c.observe_every >= 0, "observe_every of at least 0", c.observe_every);
  check(c.smoothing >= 0 && c.smoothing < 1, "smoothing in [0, 1)",
        c.smoothing);
  check(c.mask_share > 0 && c.mask_share <= 1, "mask_share in (0, 1]",
        c.mask_share);
  share(c.sentence_share, "sentence_share in [0, 1]");
  share(c.repeat_share, "repeat_share in [0, 1]");
  share(c.repeat_share_late, "repeat_share_late in [0, 1]");
  share(c.repeat_change, "repeat_change in [0, 1]");
  share(c.repeat_random, "repeat_random in [0, 1]");
  check(c.repeat_min >= 1 && c.repeat_max >= c.repeat_min,
        "repeat_max of at least repeat_min", c.repeat_max);
  check(c.hold_out >= 0, "hold_out of at least 0", c.hold_out);
  check(c.evaluate_every >= 1 && c.evaluate_sequences >= 1,
        "evaluate_every and evaluate_sequences of at least 1",
        c.evaluate_every);
  check(c.save_every >= 1, "save_every of at least 1", c.save_every);
}

std::vector<std::string> Differences(const Json& before,
                                     const TrainConfig& now) {
  // What only says where things are, how often they are written and how ranks
  // share the work.
  static const std::set<std::string> kFree = {
      "out",          "bucket",    "shard_optimizer", "tokenizer",
      "start",        "data",      "validation",      "save_every",
      "keep_every",   "save_type", "evaluate_every",  "evaluate_sequences",
      "observe_every"};
  std::vector<std::string> differences;
  const Json fields = FieldsToJson(now);
  const Json defaults = FieldsToJson(TrainConfig());
  for (const auto& [name, value] : fields.items()) {
    if (kFree.contains(name)) continue;
    const auto found = before.find(name);
    const bool absent = found == before.end();
    // A field that came later was at its default.
    if (absent && value == defaults[name]) continue;
    if (!absent && *found == value) continue;
    differences.push_back(name + ": " + (absent ? "absent" : found->dump()) +
                          ", now " + value.dump());
  }
  return differences;
}

}  // namespace headwise
