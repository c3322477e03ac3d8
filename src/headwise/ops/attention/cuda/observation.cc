// Fills the parameters of the observing passes. Door: observation.h.
#include "headwise/ops/attention/cuda/observation.h"

#include <algorithm>

#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/views.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise::attention_cuda {
namespace {

// [B, H, M, C], the last dense.
View3<float> Columns(const char* name, const TensorView& view) {
  if (view && view.stride[3] != 1 && view.shape[3] > 1) {
    ThrowUnsupported("dense columns", name, "the last stride must be 1");
  }
  return Strides<float>(view);
}

bool WantsSums(const Observation& o) {
  const SummedStatistics& s = o.summed;
  return s.sums || s.histogram || s.feature_mass || s.label_mass;
}

bool WantsMoreThanCore(const Observation& o) {
  const RowStatistics& r = o.rows;
  const SummedStatistics& s = o.summed;
  return r.varentropy || r.sum_squares || r.kept_max || r.kept_argmax ||
         r.histogram || r.feature_mass || r.label_mass || s.histogram ||
         s.feature_mass || s.label_mass ||
         (s.sums && o.statistics == Statistics::kFull);
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
    result = {buffers_.back().As<void>(), heads_ * sizes_.queries,
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
  p.varentropy = ResultView("varentropy", o.rows.varentropy);
  p.sum_squares = ResultView("sum_squares", o.rows.sum_squares);
  p.kept_max = ResultView("kept_max", o.rows.kept_max);
  p.kept_argmax = ResultView("kept_argmax", o.rows.kept_argmax);
  p.histogram = Columns("histogram", o.rows.histogram);
  p.feature_mass = Columns("feature_mass", o.rows.feature_mass);
  p.label_mass = Columns("label_mass", o.rows.label_mass);
  if (o.rows.feature_mass || o.summed.feature_mass) {
    p.features = Strides<const float>(o.key_features);
    p.feature_count = static_cast<int>(o.key_features.shape[2]);
  }
  if (o.rows.label_mass || o.summed.label_mass) {
    p.query_labels = Strides<const int32_t>(o.query_labels);
    p.key_labels = Strides<const int32_t>(o.key_labels);
    p.label_count = static_cast<int>(o.key_labels.shape[0]);
  }
  p.excluded = Strides<const uint8_t>(o.excluded_keys);
  p.weights = Strides<const float>(o.query_weights);
  p.width = kBuckets + p.feature_count + p.label_count;
}

}  // namespace

ObservationCall MakeObservation(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args,
                                ForwardParams& forward) {
  ObservationCall call;
  if (args.observation == nullptr) return call;
  const Observation& o = *args.observation;
  forward.entropy = ResultView("entropy", o.rows.entropy);
  forward.max_probability =
      ResultView("max_probability", o.rows.max_probability);
  forward.argmax = ResultView("argmax", o.rows.argmax);
  forward.distance = ResultView("distance", o.rows.distance);
  call.observes = WantsMoreThanCore(o);
  call.sums = WantsSums(o);
  const cudaStream_t stream = StreamOf(context);
  RowScratch scratch(SizesOf(problem, args), problem.heads, stream,
                     call.scratch);
  if (call.observes || call.sums) scratch.Fill(forward.lse);
  const bool kept = call.observes && !o.excluded_keys &&
                    (o.rows.kept_max || o.rows.kept_argmax || o.summed.sums);
  if (kept) {
    scratch.Fill(forward.max_probability);
    scratch.Fill(forward.argmax);
  }
  if (o.summed.sums) {
    scratch.Fill(forward.entropy);
    scratch.Fill(forward.max_probability);
    scratch.Fill(forward.argmax);
    scratch.Fill(forward.distance);
  }
  ObserveParams& p = call.observe;
  if (call.observes) {
    FillObserve(problem, o, p);
    p.forward = forward;
    p.kept_is_max = kept;
    p.blocks = CeilDiv(forward.query_len, kObserveRows);
    p.forward.order.blocks = p.blocks;
    if (p.feature_count > 0) {
      const ViewSizes sizes = SizesOf(problem, args);
      p.key_rows = static_cast<int>(sizes.keys);
      p.key_batches = static_cast<int>(sizes.batch);
      const size_t parts = CeilDiv(p.feature_count, kObserveFeatures);
      call.scratch.emplace_back(
          std::max<size_t>(1, parts * sizes.keys * sizes.batch) *
              kObserveFeatures * 2 * sizeof(uint16_t),
          stream);
      p.split_features = call.scratch.back().As<void>();
    }
    call.has_sides =
        p.feature_count > 0 || p.label_count > 0 || p.excluded.data != nullptr;
    if (o.summed.sums && o.statistics == Statistics::kFull) {
      scratch.Fill(p.varentropy);
      scratch.Fill(p.sum_squares);
      scratch.Fill(p.kept_max);
    }
    if (o.summed.histogram || o.summed.feature_mass || o.summed.label_mass) {
      const size_t rows = p.forward.order.count();
      call.scratch.emplace_back(
          std::max<size_t>(1, rows * p.width) * sizeof(double), stream);
      p.partials = call.scratch.back().As<double>();
    }
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
                    bool is_full) {
  if (call.observes && !is_full) {
    LaunchObserve(call.observe, StreamOf(context));
  }
  if (call.sums) LaunchSums(call.sum, StreamOf(context));
}

}  // namespace headwise::attention_cuda
