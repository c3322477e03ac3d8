// ONNX Runtime's attention operators on the CPU: MultiHeadAttention and
// GroupQueryAttention of its own domain, and Attention of the standard. Door:
// peers.h.
#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "bench/onnx_model.h"
#include "bench/onnxruntime_api.h"
#include "bench/peers.h"
#include "headwise/error.h"

namespace headwise::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMissing =
    "peer onnxruntime: not installed; run bench/peers/setup";

// Buffers of one operator, alive as long as its candidate.
struct BoundCall {
  Tensor out;                         // [B, M, H, D]
  Tensor present_key, present_value;  // [B, G, N, D]
  std::vector<int32_t> last_keys;     // [B]: key_len − 1
  int32_t total = 0;                  // key_len
  std::unique_ptr<OnnxSession> session;
};

enum class Operator { kMultiHead, kGroupQuery, kStandard };

OnnxNode Node(const AttentionProblem& p, Operator which) {
  const int64_t q_width = p.heads * p.head_dim;
  const int64_t kv_width = p.kv_heads * p.head_dim;
  const float scale =
      p.scale != 0 ? p.scale : 1 / std::sqrt(static_cast<float>(p.head_dim));
  const OnnxType f32 = OnnxType::kFloat;
  OnnxNode node;
  node.floats["scale"] = scale;
  node.inputs = {{"q", f32, {p.batch, p.query_len, q_width}},
                 {"k", f32, {p.batch, p.key_len, kv_width}},
                 {"v", f32, {p.batch, p.key_len, kv_width}}};
  node.outputs = {{"out", f32, {p.batch, p.query_len, q_width}}};
  const bool causal = p.mask.after == 0;
  switch (which) {
    case Operator::kMultiHead:
      node.op_type = "MultiHeadAttention";
      node.domain = "com.microsoft";
      node.integers = {{"num_heads", p.heads}, {"unidirectional", causal}};
      break;
    case Operator::kStandard:
      node.op_type = "Attention";
      node.integers = {{"q_num_heads", p.heads},
                       {"kv_num_heads", p.kv_heads},
                       {"is_causal", causal}};
      break;
    case Operator::kGroupQuery: {
      node.op_type = "GroupQueryAttention";
      node.domain = "com.microsoft";
      node.integers = {{"num_heads", p.heads},
                       {"kv_num_heads", p.kv_heads},
                       {"do_rotary", 0}};
      if (p.mask.before != kUnlimited) {
        node.integers["local_window_size"] = p.mask.before + 1;
      }
      const std::vector<int64_t> cache = {p.batch, p.kv_heads, p.key_len,
                                          p.head_dim};
      node.inputs.push_back({"", f32, {}});  // past_key
      node.inputs.push_back({"", f32, {}});  // past_value
      node.inputs.push_back({"last_keys", OnnxType::kInt32, {p.batch}});
      node.inputs.push_back({"total", OnnxType::kInt32, {1}});
      node.outputs.push_back({"present_key", f32, cache});
      node.outputs.push_back({"present_value", f32, cache});
      break;
    }
  }
  return node;
}

void* Find(const AttentionData& data, BoundCall& bound,
           const std::string& name) {
  // The C interface takes inputs as mutable, and does not write to them.
  if (name == "q") return const_cast<float*>(data.q.As<float>());
  if (name == "k") return const_cast<float*>(data.k.As<float>());
  if (name == "v") return const_cast<float*>(data.v.As<float>());
  if (name == "out") return bound.out.As<float>();
  if (name == "present_key") return bound.present_key.As<float>();
  if (name == "present_value") return bound.present_value.As<float>();
  if (name == "last_keys") return bound.last_keys.data();
  return &bound.total;
}

std::vector<OnnxTensor> Bind(const AttentionData& data, BoundCall& bound,
                             const std::vector<OnnxValue>& values) {
  std::vector<OnnxTensor> tensors;
  for (const OnnxValue& value : values) {
    if (value.name.empty()) continue;
    size_t bytes = 4;
    for (int64_t size : value.shape) bytes *= static_cast<size_t>(size);
    tensors.push_back({value.name, Find(data, bound, value.name), bytes,
                       value.shape, static_cast<int>(value.type)});
  }
  return tensors;
}

void AddOperator(const AttentionRequest& request,
                 const std::shared_ptr<const OnnxRuntime>& runtime,
                 Operator which, const std::string& impl, Peers& peers) {
  const AttentionProblem& p = request.data.problem;
  auto bound = std::make_shared<BoundCall>();
  bound->out = Tensor(DType::kF32, {p.batch, p.query_len, p.heads, p.head_dim});
  if (which == Operator::kGroupQuery) {
    for (Tensor* cache : {&bound->present_key, &bound->present_value}) {
      *cache =
          Tensor(DType::kF32, {p.batch, p.kv_heads, p.key_len, p.head_dim});
    }
  }
  bound->last_keys.assign(p.batch, static_cast<int32_t>(p.key_len - 1));
  bound->total = static_cast<int32_t>(p.key_len);
  const OnnxNode node = Node(p, which);
  try {
    bound->session = std::make_unique<OnnxSession>(
        runtime, OneNodeModel(node), request.row.threads,
        Bind(request.data, *bound, node.inputs),
        Bind(request.data, *bound, node.outputs));
    AddIfCorrect(
        request, impl, [bound] { bound->session->Run(); }, bound->out, peers);
  } catch (const Error& error) {
    peers.notes.push_back(fmt::format("peer {}: {}", impl, error.what()));
  }
}

// Empty, or why none of the operators does this problem.
std::string WhyNotOnnxRuntime(const AttentionRequest& request) {
  const AttentionProblem& p = request.data.problem;
  if (request.row.pass != "forward") return "has no backward";
  if (p.type != DType::kF32) return "only f32 is compared";
  if (p.bias != AttentionBias::kNone || p.soft_cap != 0 || p.packed ||
      p.mask.sinks != 0 || p.mask.query_offset != 0) {
    return "plain, causal and window masks only";
  }
  if (p.mask.after == 0 && p.query_len != p.key_len) {
    return "causal only where query_len = key_len";
  }
  return "";
}

}  // namespace

fs::path OnnxRuntimeLibrary() {
  const fs::path folder = PeersFolder();
  std::error_code error;
  const fs::path library = folder / "lib" / "libonnxruntime.so";
  return !folder.empty() && fs::exists(library, error) ? library : fs::path();
}

void AddOnnxRuntimeAttention(const AttentionRequest& request, Peers& peers) {
  const fs::path library = OnnxRuntimeLibrary();
  if (library.empty()) {
    peers.notes.push_back(kMissing);
    return;
  }
  if (const std::string reason = WhyNotOnnxRuntime(request); !reason.empty()) {
    peers.notes.push_back("peer onnxruntime: " + reason);
    return;
  }
  std::shared_ptr<const OnnxRuntime> runtime;
  try {
    runtime = std::make_shared<OnnxRuntime>(library);
  } catch (const Error& error) {
    peers.notes.push_back(fmt::format("peer onnxruntime: {}", error.what()));
    return;
  }
  peers.versions.push_back("onnxruntime " + runtime->version());
  const AttentionProblem& p = request.data.problem;
  const bool causal = p.mask.after == 0, window = p.mask.before != kUnlimited;
  if (!window && p.heads == p.kv_heads) {
    AddOperator(request, runtime, Operator::kMultiHead, "onnxruntime.mha",
                peers);
  }
  if (causal) {
    AddOperator(request, runtime, Operator::kGroupQuery, "onnxruntime.gqa",
                peers);
  }
  if (!window) {
    AddOperator(request, runtime, Operator::kStandard, "onnxruntime.attention",
                peers);
  }
}

}  // namespace headwise::bench
