// The list of families. Door: family.h.
#include "headwise/model/family.h"

#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int64_t kMostHeadDim = 1 << 16;

const Family* const kFamilies[] = {&kGpt2Family, &kBertFamily, &kLlamaFamily,
                                   &kEncoderDecoderFamily};

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
               model_type.empty() ? "none" : model_type, ""});
}

ModelConfig ReadConfig(const Json& json, const std::string& file) {
  const ConfigReader reader(json, file);
  const std::string type = reader.Text("model_type", "");
  const Family& family = FindFamily(type);
  ModelConfig config = family.read_config(reader);
  // Tables of rotary frequencies are made before any weight is looked at.
  if (config.head_dim > kMostHeadDim) {
    throw Error(ErrorCode::kCorrupt,
                {file, "heads of at most " + std::to_string(kMostHeadDim),
                 std::to_string(config.head_dim), ""});
  }
  ReadHeadChoice(reader, config);
  config.family = family.name;
  config.model_type = type;
  return config;
}

std::unique_ptr<Model> BuildModel(const ModelConfig& config,
                                  std::shared_ptr<const WeightSource> weights,
                                  DType type) {
  Model::Parts parts = FindFamily(config.model_type).build(config, *weights);
  parts.weights = std::move(weights);
  parts.type = type;
  return std::make_unique<Model>(std::move(parts));
}

}  // namespace headwise
