// The list of families. Door: family.h.
#include "headwise/model/family.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// Tables that every family computes.
constexpr const char* kComputed[] = {"position_ids", "rotary_emb.inv_freq"};

// Weights that remember which of them were asked for.
class ReadWeights : public WeightSource {
 public:
  explicit ReadWeights(const WeightSource& source) : source_(source) {}

  std::string Describe() const override { return source_.Describe(); }
  ConstTensorView Find(const std::string& name) const override {
    read_.insert(name);
    return source_.Find(name);
  }
  std::vector<std::string> Names() const override { return source_.Names(); }
  bool Mapped() const override { return source_.Mapped(); }
  TensorView Gradient(const std::string& name) const override {
    return source_.Gradient(name);
  }
  bool Varies(const std::string& name) const override {
    return source_.Varies(name);
  }
  ConstTensorView Compute(const std::string& name) const override {
    return source_.Compute(name);
  }
  bool Makes(const std::string& name) const override {
    return source_.Makes(name);
  }
  ConstTensorView Provide(const std::string& name,
                          std::span<const int64_t> shape,
                          const Start& start) const override {
    read_.insert(name);
    return source_.Provide(name, shape, start);
  }

  // Tensors that nobody asked for and that have none of these in their names.
  std::vector<std::string> Unread(
      std::span<const std::string> passed_over) const {
    std::vector<std::string> names = Names();
    std::erase_if(names, [&](const std::string& name) {
      const auto has = [&](const std::string& part) {
        return name.find(part) != name.npos;
      };
      return read_.contains(name) || std::ranges::any_of(kComputed, has) ||
             std::ranges::any_of(passed_over, has);
    });
    std::ranges::sort(names);
    return names;
  }

 private:
  const WeightSource& source_;
  mutable std::set<std::string> read_;
};

constexpr int64_t kMostHeadDim = 1 << 16;

#define HEADWISE_ADDRESS_OF(family) &(family),
const Family* const kFamilies[] = {HEADWISE_FAMILIES(HEADWISE_ADDRESS_OF)};
#undef HEADWISE_ADDRESS_OF

}  // namespace

const Family& FindFamily(const std::string& model_type) {
  std::string known;
  for (const Family* family : kFamilies) {
    for (const std::string& type : family->model_types) {
      if (type == model_type) return *family;
      known += (known.empty() ? "" : ", ") + type;
    }
  }
  throw Error(ErrorCode::kUnsupported,
              {"model", "a model_type among " + known,
               model_type.empty() ? "none" : model_type,
               "docs/adding-a-family.md tells how another one is added"});
}

ModelConfig ReadConfig(const Json& json, const std::string& file) {
  const ConfigReader reader(json, file);
  const std::string type = reader.Text("model_type", "");
  const Family& family = FindFamily(type);
  RequireKnownSettings(reader, family.quantization);
  ModelConfig config = family.read_config(reader);
  // Tables of rotary frequencies are made before any weight is looked at.
  int64_t widest = config.head_dim;
  for (const LayerShape& layer : config.layers) {
    widest = std::max({widest, layer.head_dim, layer.value_dim});
  }
  if (widest > kMostHeadDim) {
    throw Error(ErrorCode::kCorrupt,
                {file, "heads of at most " + std::to_string(kMostHeadDim),
                 std::to_string(widest),
                 "check head_dim, hidden_size and num_attention_heads"});
  }
  ReadHeadChoice(reader, config);
  config.family = family.name;
  config.model_type = type;
  return config;
}

std::unique_ptr<Model> BuildModel(const ModelConfig& config,
                                  std::shared_ptr<const WeightSource> weights,
                                  DType type) {
  const Family& family = FindFamily(config.model_type);
  const ReadWeights source(*weights);
  Model::Parts parts = family.build(config, source);
  parts.unread = source.Unread(family.passes_over);
  parts.weights = std::move(weights);
  parts.type = type;
  return std::make_unique<Model>(std::move(parts));
}

}  // namespace headwise
