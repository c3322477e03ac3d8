// Sums of head outputs. Door: moments.h.
#include "headwise/heads/pruning/moments.h"

#include <algorithm>

#include "headwise/base/stop.h"
#include "headwise/heads/importance/host_values.h"

namespace headwise {

void OutputMoments::Add(const float* z, int64_t rows) {
  constexpr int64_t kBlock = 4;  // rows that pass over the sums together
  std::vector<double> block(kBlock * width_);
  rows_ += static_cast<double>(rows);
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t count = std::min(kBlock, rows - first);
    std::fill(block.begin(), block.end(), 0.0);
    std::copy_n(z + first * width_, count * width_, block.begin());
    const double* a = block.data();
    const double* b = a + width_;
    const double* c = b + width_;
    const double* d = c + width_;
    for (int64_t i = 0; i < width_; ++i) {
      sum_[i] += a[i] + b[i] + c[i] + d[i];
      double* to = products_.data() + i * width_;
      const double ai = a[i], bi = b[i], ci = c[i], di = d[i];
      for (int64_t j = i; j < width_; ++j) {
        to[j] += ai * a[j] + bi * b[j] + ci * c[j] + di * d[j];
      }
    }
  }
}

void OutputMoments::Add(const OutputMoments& other) {
  rows_ += other.rows_;
  std::transform(sum_.begin(), sum_.end(), other.sum_.begin(), sum_.begin(),
                 std::plus<>());
  std::transform(products_.begin(), products_.end(), other.products_.begin(),
                 products_.begin(), std::plus<>());
}

SiteMoments GatherMoments(Context& context, const Model& model,
                          std::span<const TextExample> examples,
                          const std::set<std::string>& sites,
                          const CorpusOptions& options) {
  SiteMoments moments;
  const Objective objective(model, options.objective);
  size_t begin = 0;
  for (const size_t end : CutExamples(examples, options.batch_tokens)) {
    ThrowIfStopped(options.pass.stop, "least squares");
    const ExampleBatch batch = objective.Prepare(
        examples.subspan(begin, end - begin), static_cast<int64_t>(begin));
    const CleanRun run = RunClean(context, model, batch);
    for (const auto& [site, z] : run.outputs) {
      if (!sites.contains(site)) continue;
      const int64_t width = z.shape(1) * z.shape(2);
      OutputMoments& mine =
          moments.try_emplace(site, OutputMoments(width)).first->second;
      Tensor copy;
      mine.Add(HostF32(context, z.view(), copy).As<float>(), z.shape(0));
    }
    begin = end;
    if (options.pass.progress) {
      options.pass.progress("least squares", static_cast<double>(end),
                            static_cast<double>(examples.size()));
    }
  }
  return moments;
}

}  // namespace headwise
