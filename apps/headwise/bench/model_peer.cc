// Door: model_peer.h.
#include "bench/model_peer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/onnx_model.h"
#include "bench/onnxruntime_api.h"
#include "bench/peers.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"

namespace headwise::bench {
namespace {

// Checkpoints in half precision beside a graph in f32 differ by rounding.
constexpr double kTolerance = 5e-3;

struct Bound {
  std::vector<int64_t> ids, mask, types;
  Tensor out;  // [batch, length, d]
  std::unique_ptr<OnnxSession> session;
};

double WorstDifference(const Tensor& a, const Tensor& b) {
  double worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    worst =
        std::max(worst, std::abs(double{a.As<float>()[i]} - b.As<float>()[i]));
  }
  return worst;
}

}  // namespace

std::function<void()> MakeOnnxEncoder(const EncoderRequest& request,
                                      ModelResult& result) {
  try {
    auto runtime = std::make_shared<OnnxRuntime>(OnnxRuntimeLibrary());
    const std::string version = "onnxruntime " + runtime->version();
    if (std::find(result.peer_versions.begin(), result.peer_versions.end(),
                  version) == result.peer_versions.end()) {
      result.peer_versions.push_back(version);
    }
    auto bound = std::make_shared<Bound>();
    const int64_t count = request.batch * request.length;
    bound->ids.assign(request.ids.begin(), request.ids.end());
    bound->mask.assign(count, 1);
    bound->types.assign(count, 0);
    const int64_t width = request.truth.shape(1);
    bound->out = Tensor(DType::kF32, {request.batch, request.length, width});
    const std::vector<int64_t> shape = {request.batch, request.length};
    const int i64 = static_cast<int>(OnnxType::kInt64);
    const size_t bytes = count * sizeof(int64_t);
    const MappedFile file(request.file);
    bound->session = std::make_unique<OnnxSession>(
        runtime, std::string(file.text()), request.threads,
        std::vector<OnnxTensor>{
            {"input_ids", bound->ids.data(), bytes, shape, i64},
            {"attention_mask", bound->mask.data(), bytes, shape, i64},
            {"token_type_ids", bound->types.data(), bytes, shape, i64}},
        std::vector<OnnxTensor>{{"last_hidden_state",
                                 bound->out.As<float>(),
                                 bound->out.bytes(),
                                 {request.batch, request.length, width}}});
    bound->session->Run();
    const double worst = WorstDifference(request.truth, bound->out);
    if (worst > kTolerance) {
      result.notes.push_back(fmt::format(
          "peer onnxruntime: its output differs by {:.1e}: another model?",
          worst));
      return {};
    }
    return [bound] { bound->session->Run(); };
  } catch (const Error& error) {
    result.notes.push_back(fmt::format("peer onnxruntime: {}", error.what()));
    return {};
  }
}

}  // namespace headwise::bench
