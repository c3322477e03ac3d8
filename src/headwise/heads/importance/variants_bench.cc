// What sharing prefixes gains: every head of a 12-layer model closed in turn,
// beside whole runs stacked to as many rows. Losses are left out: both pay the
// same for the vocabulary.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/importance/variants.h"

namespace headwise {
namespace {

constexpr int64_t kRows = 4096;

struct Setting {
  Setting()
      : model(MakeRandomLlama({.layers = 12,
                               .width = 256,
                               .heads = 8,
                               .hidden = 688,
                               .vocabulary = 512})),
        batch(Objective(*model).Prepare(RandomExamples(4, 128, 512, 1), 0)) {
    for (const HeadRef& head : AllHeads(*model)) variants.push_back({head});
  }

  Context context;
  std::unique_ptr<Model> model;
  ExampleBatch batch;
  std::vector<HeadSet> variants;
};

void SharedPrefix(benchmark::State& state) {
  Setting s;
  VariantJob job;
  job.variants = s.variants;
  job.most_rows = kRows;
  job.done = [](std::span<const int64_t>, ConstTensorView x) {
    benchmark::DoNotOptimize(x.data);
  };
  for (auto _ : state) RunVariants(s.context, *s.model, s.batch, job);
}

void WholeRuns(benchmark::State& state) {
  Setting s;
  const int64_t rows = s.batch.sequences.total();
  const size_t together = static_cast<size_t>(kRows / rows);
  for (auto _ : state) {
    for (size_t begin = 0; begin < s.variants.size(); begin += together) {
      const auto some =
          std::span(s.variants)
              .subspan(begin, std::min(together, s.variants.size() - begin));
      std::vector<int32_t> ids;
      std::vector<int64_t> lengths;
      for (size_t c = 0; c < some.size(); ++c) {
        ids.insert(ids.end(), s.batch.ids.begin(), s.batch.ids.end());
        for (int64_t b = 0; b < s.batch.size(); ++b) {
          lengths.push_back(s.batch.sequences.starts[b + 1] -
                            s.batch.sequences.starts[b]);
        }
      }
      StackedGates gates(s.context, *s.model, s.batch, some, nullptr);
      const SequenceBatch batch = MakeBatch(lengths);
      StackInput input;
      input.ids = ids;
      input.batch = &batch;
      input.hooks = &gates;
      Tensor x(DType::kF32, {batch.total(), s.model->config().width});
      s.model->Run(s.context, s.model->stack(), input, x.view());
      benchmark::DoNotOptimize(x.As<float>());
    }
  }
}

BENCHMARK(SharedPrefix)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(WholeRuns)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace headwise
