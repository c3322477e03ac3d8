// Summaries of checkpoints. Door: summary.h.
#include "headwise/model/summary.h"

#include <algorithm>

#include "headwise/attention.h"
#include "headwise/tensor/encoding.h"

namespace headwise {
namespace {

bool IsEmbedding(const std::string& name) {
  for (const char* part : {"embed", "wte.", "wpe.", "shared."}) {
    if (name.find(part) != name.npos && name.find("norm") == name.npos &&
        name.find("Norm") == name.npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

ModelSummary Summarise(const Checkpoint& checkpoint) {
  ModelSummary summary;
  summary.config = checkpoint.config();
  for (const std::string& name : checkpoint.weights().Names()) {
    const ConstTensorView view = checkpoint.weights().Find(name);
    const int64_t count = view.size();
    ++summary.tensors;
    summary.parameters += count;
    if (IsEmbedding(name)) summary.embedding_parameters += count;
    summary.file_bytes += BytesOf(view);
    summary.types[Name(view.type)] += count;
  }
  return summary;
}

std::vector<const Linear*> LinearsOf(const Stack& stack) {
  std::vector<const Linear*> linears;
  for (const Linear* linear :
       {&stack.embeddings.token_projection, &stack.embeddings.projection}) {
    if (*linear) linears.push_back(linear);
  }
  for (const Block& block : stack.blocks) {
    const auto own = block.linears();
    linears.insert(linears.end(), own.begin(), own.end());
  }
  return linears;
}

int64_t WeightBytesOfToken(const Model& model) {
  int64_t bytes = model.head().transform.stored_bytes() +
                  model.head().vocabulary.stored_bytes();
  for (const Linear* linear : LinearsOf(model.predictor())) {
    bytes += linear->stored_bytes();
  }
  return bytes;
}

RunCost CostOf(const ModelConfig& config, int64_t tokens) {
  RunCost cost;
  cost.tokens = tokens;
  const double n = static_cast<double>(tokens);
  const double d = static_cast<double>(config.width);
  const bool decoder = config.encoder_decoder();
  const auto& layers = decoder ? config.decoder : config.layers;
  double widest = 0;
  for (const LayerShape& layer : layers) {
    const double dim = static_cast<double>(config.HeadDim(layer));
    const double value = static_cast<double>(config.ValueDim(layer));
    const double heads = static_cast<double>(layer.heads);
    const double groups =
        layer.keys_of < 0 ? static_cast<double>(layer.kv_heads) : 0;
    const double cross = static_cast<double>(layer.cross_heads);
    cost.projection_flops +=
        2 * n * d * (dim + value) * (heads + groups + 2 * cross);
    AttentionProblem problem;
    problem.heads = problem.kv_heads = std::max<int64_t>(1, layer.heads);
    problem.query_len = problem.key_len = tokens;
    problem.head_dim = config.HeadDim(layer);
    problem.value_dim = config.ValueDim(layer);
    problem.mask = decoder ? AttentionMask::Causal() : MaskOf(config, layer);
    if (layer.heads > 0) cost.attention_flops += AttentionFlops(problem);
    cost.attention_flops += 2 * n * n * (dim + value) * cross;
    cost.cache_bytes += 4 * n * groups * (dim + value);
    cost.maps_bytes += 4 * n * n * (heads + cross);
    widest = std::max(widest, (heads + groups) * (dim + value));
    const auto hidden = static_cast<double>(decoder ? config.decoder_hidden
                                                    : config.Hidden(layer));
    cost.mlp_flops += 2 * n * d * hidden * (config.gated ? 3 : 2);
  }
  cost.head_flops = 2 * n * static_cast<double>(config.EmbeddingWidth()) *
                    static_cast<double>(config.vocabulary);
  cost.stream_bytes = 4 * n * (2 * d + widest);
  return cost;
}

}  // namespace headwise
