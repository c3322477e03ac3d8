// Fills the parameters of the observing passes. Door: observation.h.
#include "headwise/ops/attention/cuda/observation.h"

#include <algorithm>

#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/views.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise::attention_cuda {
namespace {

bool WantsSums(const Observation& o) {
  const SummedStatistics& s = o.summed;
  return s.sums || s.histogram || s.feature_mass || s.label_mass;
}

bool WantsFullSums(const Observation& o) {
  return o.summed.sums && o.statistics == Statistics::kFull;
}

bool WantsKept(const Observation& o) {
  return o.rows.kept_max || o.rows.kept_argmax || WantsFullSums(o);
}

bool WantsNumbers(const Observation& o) {
  const RowStatistics& r = o.rows;
  return r.varentropy || r.sum_squares || r.histogram || o.summed.histogram ||
         WantsFullSums(o) || (WantsKept(o) && !o.excluded_keys);
}

// Memory for a row result that a later pass reads and the caller did not ask
// for.
class RowScratch {
 public:
  RowScratch(const ViewSizes& sizes, int64_t heads, cudaStream_t stream,
             std::vector<DeviceBuffer>& buffers)
      : sizes_(sizes), heads_(heads), stream_(stream), buffers_(buffers) {}

  void Fill(RowResult& result) {
    if (result.data != nullptr) return;
    const int64_t rows =
        std::max<int64_t>(1, sizes_.batch * heads_ * sizes_.queries);
    buffers_.emplace_back(rows * sizeof(float), stream_);
    result = {buffers_.back().Raw<void>(), heads_ * sizes_.queries,
              sizes_.queries};
  }

 private:
  ViewSizes sizes_;
  int64_t heads_;
  cudaStream_t stream_;
  std::vector<DeviceBuffer>& buffers_;
};

void FillObserve(const AttentionProblem& problem, const Observation& o,
                 ObserveParams& p) {
  p.is_half = problem.type == DType::kF16;
  p.varentropy = ResultView(o.rows.varentropy);
  p.sum_squares = ResultView(o.rows.sum_squares);
  p.kept_max = ResultView(o.rows.kept_max);
  p.kept_argmax = ResultView(o.rows.kept_argmax);
  p.histogram = Strides<float>(o.rows.histogram);
  p.feature_mass = Strides<float>(o.rows.feature_mass);
  p.label_mass = Strides<float>(o.rows.label_mass);
  if (o.rows.feature_mass || o.summed.feature_mass) {
    p.features = Strides<const float>(o.key_features);
    p.feature_count = static_cast<int>(o.key_features.shape[2]);
  }
  if (o.rows.label_mass || o.summed.label_mass) {
    p.query_labels = Strides<const int32_t>(o.query_labels);
    p.key_labels = Strides<const int32_t>(o.key_labels);
    p.label_count = static_cast<int>(o.key_labels.shape[0]);
  }
  if (WantsKept(o)) p.excluded = Strides<const uint8_t>(o.excluded_keys);
  p.weights = Strides<const float>(o.query_weights);
  p.width = kBuckets + p.feature_count + p.label_count;
}

// The features as bf16 columns; see ObserveParams::split_features.
void FillFeatures(const ViewSizes& sizes, cudaStream_t stream,
                  ObservationCall& call) {
  ObserveParams& p = call.observe;
  p.key_rows = static_cast<int>(sizes.keys);
  p.key_batches = static_cast<int>(sizes.batch);
  const size_t parts = CeilDiv(p.feature_count, kObserveFeatures);
  call.scratch.emplace_back(
      std::max<size_t>(1, parts * sizes.keys * sizes.batch) * kObserveFeatures *
          2 * sizeof(uint16_t),
      stream);
  p.split_features = call.scratch.back().Raw<void>();
}

}  // namespace

ObservationCall MakeObservation(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args, int block,
                                ForwardParams& forward) {
  ObservationCall call;
  if (args.observation == nullptr) return call;
  const Observation& o = *args.observation;
  forward.entropy = ResultView(o.rows.entropy);
  forward.max_probability = ResultView(o.rows.max_probability);
  forward.argmax = ResultView(o.rows.argmax);
  forward.distance = ResultView(o.rows.distance);
  ObserveParams& p = call.observe;
  FillObserve(problem, o, p);
  call.numbers = WantsNumbers(o);
  call.sides =
      p.feature_count > 0 || p.label_count > 0 || p.excluded.data != nullptr;
  call.sums = WantsSums(o);
  const cudaStream_t stream = StreamOf(context);
  const ViewSizes sizes = SizesOf(problem, args);
  RowScratch scratch(sizes, problem.heads, stream, call.scratch);
  call.missing = ResultView(o.rows.missing);
  if (call.numbers || call.sides || call.sums || o.rows.missing) {
    scratch.Fill(forward.lse);
  }
  p.kept_is_max = WantsKept(o) && !o.excluded_keys;
  if (p.kept_is_max || o.summed.sums) {
    scratch.Fill(forward.max_probability);
    scratch.Fill(forward.argmax);
  }
  if (o.summed.sums) {
    scratch.Fill(forward.entropy);
    scratch.Fill(forward.distance);
  }
  if (WantsFullSums(o)) {
    scratch.Fill(p.varentropy);
    scratch.Fill(p.sum_squares);
    scratch.Fill(p.kept_max);
  }
  p.forward = forward;
  const bool is_plain = block == kPlainRows;
  p.blocks = CeilDiv(forward.query_len, is_plain ? kPlainRows : kObserveRows);
  p.forward.order.blocks = p.blocks;
  if (p.feature_count > 0 && !is_plain) FillFeatures(sizes, stream, call);
  if (o.summed.histogram || o.summed.feature_mass || o.summed.label_mass) {
    const size_t rows = p.forward.order.count();
    call.scratch.emplace_back(
        std::max<size_t>(1, rows * p.width) * sizeof(double), stream);
    p.partials = call.scratch.back().Raw<double>();
  }
  SumParams& s = call.sum;
  s.forward = forward;
  s.varentropy = p.varentropy;
  s.sum_squares = p.sum_squares;
  s.kept_max = p.kept_max;
  s.full = o.statistics == Statistics::kFull;
  s.weights = Strides<const float>(o.query_weights);
  s.sums = Strides<double>(o.summed.sums);
  s.histogram = Strides<double>(o.summed.histogram);
  s.feature_mass = Strides<double>(o.summed.feature_mass);
  s.label_mass = Strides<double>(o.summed.label_mass);
  s.feature_count = p.feature_count;
  s.label_count = p.label_count;
  s.partials = p.partials;
  s.width = p.width;
  s.blocks = p.blocks;
  return call;
}

void RunObservation(Context& context, const ObservationCall& call,
                    bool has_numbers) {
  if (call.sides || (call.numbers && !has_numbers)) {
    ObserveParams pass = call.observe;
    pass.forward.order.blocks = pass.blocks;
    pass.sides_only = has_numbers || !call.numbers;
    LaunchObserve(pass, StreamOf(context));
  }
  RunSums(context, call);
}

void RunSums(Context& context, const ObservationCall& call) {
  if (call.missing.data != nullptr) {
    LaunchMissing(call.sum.forward, call.missing, StreamOf(context));
  }
  if (call.sums) LaunchSums(call.sum, StreamOf(context));
}

}  // namespace headwise::attention_cuda
