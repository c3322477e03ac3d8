// Door: rope_settings.h.
#include "headwise/model/rope_settings.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "headwise/base/json.h"

namespace headwise {
namespace {

// The defaults of transformers where a file says nothing.
constexpr int64_t kDefaultContext = 2048;

constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char* kShare = "partial_rotary_factor";

// What any type of rotary positions reads; a type passes over the others', as
// transformers does. "finetuned" is a remark.
constexpr const char* kScalingKeys[] = {
    "rope_type",    "type",        "rope_theta",       kShare,
    "factor",       kOriginal,     "attention_factor", "beta_fast",
    "beta_slow",    "mscale",      "mscale_all_dim",   "truncate",
    "short_factor", "long_factor", "low_freq_factor",  "high_freq_factor",
    "finetuned"};

// One set of rotary positions: keys of the model, and of its own object.
class RopeReader {
 public:
  RopeReader(const ConfigReader& model, std::optional<ConfigReader> scaling,
             const RopeKeys& keys)
      : model_(model), scaling_(std::move(scaling)), keys_(keys) {}

  RopeConfig Read(int64_t head_dim) {
    rope_.head_dim = head_dim;
    rope_.pairs = keys_.pairs;
    rope_.base = model_.Number(keys_.base, keys_.other_base);
    if (scaling_) {
      RequireKnownKeys();
      rope_.base = scaling_->Number("rope_theta", rope_.base);
      rope_.factor = scaling_->Number("factor", 1);
    }
    const std::string type =
        scaling_
            ? scaling_->Text("rope_type", scaling_->Text("type", "default"))
            : "default";
    ReadTurned(type == "proportional");
    ReadType(type);
    const ConfigReader& said = scaling_ ? *scaling_ : model_;
    if (rope_.factor <= 0) said.Fail("factor", "a positive number");
    if (rope_.base <= 0) {
      said.Fail(scaling_ ? "rope_theta" : keys_.base, "a positive number");
    }
    return rope_;
  }

 private:
  void RequireKnownKeys() const {
    for (const auto& [key, value] : scaling_->json().items()) {
      if (std::ranges::find(kScalingKeys, key) != std::end(kScalingKeys)) {
        continue;
      }
      scaling_->Require(key.c_str(), nullptr,
                        "rotary positions of this family do not read it");
    }
  }

  // The share of a head that turns, said by the model, its rope_parameters or
  // both.
  double ReadShare(bool proportional) const {
    if (!keys_.shares && !proportional) {
      const char* hint = "heads of this family are turned as a whole";
      model_.Require(kShare, 1, hint);
      if (scaling_) scaling_->Require(kShare, 1, hint);
      return 1;
    }
    double share = model_.Number(keys_.share, keys_.other_share);
    if (scaling_ && scaling_->Has(kShare)) {
      share = scaling_->Number(kShare, 1);
      model_.Require(keys_.share, scaling_->json()[kShare],
                     scaling_->file() + " says another thing");
    }
    return share;
  }

  void ReadTurned(bool proportional) {
    if (keys_.dims != nullptr) {
      rope_.turned = model_.Size({keys_.dims}, keys_.other_dims);
      if (rope_.dims() <= rope_.head_dim && rope_.dims() % 2 == 0) return;
      model_.Fail(keys_.dims, "an even number of dimensions of a head, of " +
                                  std::to_string(rope_.head_dim));
    }
    const double share = ReadShare(proportional);
    const double dims = share * static_cast<double>(rope_.head_dim);
    const bool inside = share > 0 && share <= 1;
    // Python's int(), and of pairs where frequencies are a whole head's.
    if (inside) {
      rope_.turned = proportional ? 2 * static_cast<int64_t>(dims / 2)
                                  : static_cast<int64_t>(dims);
    }
    if (inside && rope_.turned > 0 && rope_.turned % 2 == 0) return;
    const ConfigReader& said =
        scaling_ && scaling_->Has(kShare) ? *scaling_ : model_;
    said.Fail(
        &said == &model_ ? keys_.share : kShare,
        "a share, above 0 and at most 1, by which an even number of the " +
            std::to_string(rope_.head_dim) + " dimensions of a head turn");
  }

  void ReadType(const std::string& type) {
    if (type == "default") return;
    if (keys_.longrope_alone) {
      if (type == "longrope" || type == "su" || type == "yarn") {
        return ReadLongrope();
      }
      scaling_->Fail("rope_type", "default or longrope");
    }
    if (type == "linear") {
      rope_.scaling = RopeScaling::kLinear;
    } else if (type == "proportional") {
      rope_.scaling = RopeScaling::kProportional;
    } else if (type == "dynamic") {
      ReadDynamic();
    } else if (type == "llama3") {
      rope_.scaling = RopeScaling::kLlama3;
      rope_.low_frequency_factor = scaling_->Number("low_freq_factor", 1);
      rope_.high_frequency_factor = scaling_->Number("high_freq_factor", 4);
      rope_.original_context = ReadOriginalContext();
    } else if (type == "yarn") {
      ReadYarn();
    } else if (type == "longrope") {
      ReadLongrope();
    } else {
      scaling_->Fail("rope_type",
                     "default, linear, dynamic, llama3, yarn, longrope or "
                     "proportional");
    }
  }

  // Positions before the model was stretched.
  int64_t ReadOriginalContext() const {
    if (model_.Has(kOriginal) || keys_.other_original > 0) {
      return model_.Size({kOriginal}, keys_.other_original);
    }
    return scaling_->Size({kOriginal}, ReadContext(model_));
  }

  // By how much it was, where no factor says so.
  double Stretch() const {
    return static_cast<double>(ReadContext(model_)) /
           static_cast<double>(rope_.original_context);
  }

  void ReadDynamic() {
    rope_.scaling = RopeScaling::kDynamic;
    rope_.original_context = ReadContext(model_);
    scaling_->Require(kOriginal, rope_.original_context,
                      "dynamic positions are stretched beyond "
                      "max_position_embeddings");
    if (rope_.dims() >= 4) return;
    scaling_->Fail("rope_type", "another one for heads of which " +
                                    std::to_string(rope_.dims()) +
                                    " dimensions turn");
  }

  // The scale of what turns: said, or from what DeepSeek's files say, or
  // Yarn's.
  double ReadYarnScale() const {
    const double top = scaling_->Number("mscale", 0);
    const double bottom = scaling_->Number("mscale_all_dim", 0);
    const double other =
        top != 0 && bottom != 0
            ? YarnScale(rope_.factor, top) / YarnScale(rope_.factor, bottom)
            : YarnScale(rope_.factor);
    return scaling_->Number("attention_factor", other);
  }

  void ReadYarn() {
    rope_.scaling = RopeScaling::kYarn;
    rope_.original_context = ReadOriginalContext();
    if (!scaling_->Has("factor")) rope_.factor = Stretch();
    rope_.kept_turns = scaling_->Number("beta_fast", rope_.kept_turns);
    rope_.divided_turns = scaling_->Number("beta_slow", rope_.divided_turns);
    rope_.whole_pairs = scaling_->Flag("truncate", true);
    rope_.scale = ReadYarnScale();
    if (rope_.divided_turns <= 0 || rope_.kept_turns <= 0) {
      scaling_->Fail("beta_fast, beta_slow", "positive numbers of turns");
    }
    if (rope_.base <= 1) scaling_->Fail("rope_theta", "a number above 1");
    RequireScale();
  }

  void ReadLongrope() {
    rope_.scaling = RopeScaling::kLongrope;
    rope_.original_context = ReadOriginalContext();
    if (rope_.original_context < 2) {
      scaling_->Fail(kOriginal, "at least 2 positions");
    }
    if (!scaling_->Has("factor")) rope_.factor = Stretch();
    rope_.short_factors = ReadFactors("short_factor");
    rope_.long_factors = ReadFactors("long_factor");
    rope_.scale =
        scaling_->Number("attention_factor",
                         LongropeScale(rope_.factor, rope_.original_context));
    RequireScale();
  }

  std::vector<double> ReadFactors(const char* key) const {
    const auto pairs = static_cast<size_t>(rope_.dims() / 2);
    const auto given = JsonCursor(scaling_->json(), scaling_->file()).Find(key);
    std::vector<double> factors;
    if (given && given->value().is_array()) {
      for (const JsonCursor& one : given->Items()) {
        factors.push_back(one.Number());
      }
    }
    const bool positive =
        std::ranges::all_of(factors, [](double f) { return f > 0; });
    if (factors.size() != pairs || !positive) {
      scaling_->Fail(key, std::to_string(pairs) +
                              " positive numbers, one for each pair of "
                              "dimensions that turns");
    }
    return factors;
  }

  void RequireScale() const {
    if (rope_.scale > 0) return;
    scaling_->Fail("attention_factor", "a positive number");
  }

  const ConfigReader& model_;
  std::optional<ConfigReader> scaling_;
  const RopeKeys& keys_;
  RopeConfig rope_;
};

std::optional<ConfigReader> Inner(const ConfigReader& reader, const char* key) {
  if (!reader.Has(key)) return std::nullopt;
  return ConfigReader(reader.json()[key], reader.file() + ": " + key);
}

}  // namespace

int64_t ReadContext(const ConfigReader& reader) {
  return reader.Size({"max_position_embeddings"}, kDefaultContext);
}

RopeConfig ReadRope(const ConfigReader& reader, int64_t head_dim,
                    const RopeKeys& keys) {
  const char* key =
      reader.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (reader.Has(key) && reader.Has("rope_scaling")) {
    reader.Require("rope_scaling", reader.json()[key],
                   "\"rope_parameters\" says another thing");
  }
  return RopeReader(reader, Inner(reader, key), keys).Read(head_dim);
}

std::vector<RopeConfig> ReadRopes(const ConfigReader& reader,
                                  std::span<const RopeKind> kinds) {
  const auto parameters = Inner(reader, "rope_parameters");
  if (parameters) {
    reader.Require("rope_scaling", nullptr,
                   "\"rope_parameters\" are those of each kind of layers");
    for (const auto& item : parameters->json().items()) {
      const bool known = std::ranges::any_of(
          kinds, [&](const RopeKind& kind) { return kind.layers == item.key; });
      // transformers leaves this behind where all layers are of one kind.
      const bool empty = item.key == "rope_type" && item.value == "default";
      if (!known && !empty) {
        parameters->Require(item.key.c_str(), nullptr,
                            "rotary positions stand under the kind of layers "
                            "that they are of");
      }
    }
  }
  std::vector<RopeConfig> ropes;
  for (const RopeKind& kind : kinds) {
    std::optional<ConfigReader> own;
    if (parameters) {
      own = Inner(*parameters, kind.layers);
    } else if (kind.keys.old_scaling) {
      own = Inner(reader, "rope_scaling");
    }
    ropes.push_back(
        RopeReader(reader, std::move(own), kind.keys).Read(kind.head_dim));
  }
  return ropes;
}

}  // namespace headwise
