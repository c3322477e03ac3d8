// BART (Lewis et al. 2020) and its siblings: mBART, Pegasus, M2M-100 and NLLB.
// BART is post-norm, the others pre-norm with a norm at the end of each stack;
// BART and mBART learn positions, whose first two rows are not used, and norm
// the embeddings; Pegasus and M2M-100 have sinusoids. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/encoder_decoder.h"

namespace headwise {
namespace {

// Rows of a table of learned positions that no token reads.
constexpr int64_t kUnusedPositions = 2;

bool NormsEmbeddings(const ModelConfig& config) {
  return config.positions == Positions::kLearned;
}

// M2M-100 counts from behind the padding id, by tensor2tensor's sinusoids.
void ReadSinusoids(const ConfigReader& reader, ModelConfig& config) {
  config.positions = Positions::kSinusoid;
  if (config.model_type != "m2m_100") return;
  if (config.width < 4) reader.Fail("d_model", "4 or more for sinusoids");
  if (config.pad < 0) reader.Fail("pad_token_id", "an id");
  config.sinusoids = SinusoidRule::kHalf;
  config.position_offset = config.pad + 1;
}

ModelConfig ReadBart(const ConfigReader& reader) {
  const std::string type = reader.Text("model_type", "");
  const bool many = type == "m2m_100";
  ModelConfig config = ReadSides(
      reader, {.activation = many ? "relu" : "gelu", .scale_embedding = many});
  config.model_type = type;
  config.norm_place = type == "bart" ? NormPlace::kPost : NormPlace::kPre;
  if (type == "pegasus" || many) {
    ReadSinusoids(reader, config);
    return config;
  }
  config.positions = Positions::kLearned;
  config.position_offset = kUnusedPositions;
  return config;
}

class BartBuilder : public EncoderDecoderBuilder {
 public:
  using EncoderDecoderBuilder::EncoderDecoderBuilder;

 protected:
  SideNames NamesOf(const std::string& which) const override {
    SideNames names = EncoderDecoderBuilder::NamesOf(which);
    if (NormsEmbeddings(config_)) names.embedding_norm = "layernorm_embedding";
    if (config_.norm_place == NormPlace::kPre) names.final_norm = "layer_norm";
    return names;
  }
};

Model::Parts BuildBart(const ModelConfig& config, const WeightSource& weights) {
  return BartBuilder(config, weights).Build();
}

}  // namespace

// Passes over tables of sinusoids, which are computed, and heads of other
// tasks.
const Family kBartFamily = {
    .name = "bart",
    .model_types = {"bart", "mbart", "pegasus", "m2m_100"},
    .read_config = ReadBart,
    .build = BuildBart,
    .passes_over = {"embed_positions.weight", "classification_head.",
                    "qa_outputs."}};

}  // namespace headwise
