// Everything that calls over one random problem write: poisoned before, and in
// the layout that the problem's seed says, so that two runs can be compared bit
// by bit. Test only.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "headwise/attention.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/random_problem.h"
#include "headwise/ops/attention/test_tensor.h"

namespace headwise {

// How an output is compared with the reference's.
enum class Measure { kOutput, kStatistic, kGradient, kArgmax, kSums };

struct CallOutput {
  std::string name;
  TestTensor tensor;
  Measure measure;
  int head_axis;  // −1: written whatever heads are active
};

class CallResults {
 public:
  // Runs the named implementation: the passes that `passes` has. Which optional
  // outputs are asked for is drawn from the problem's seed.
  CallResults(const RandomProblem& problem, const std::string& implementation,
              int threads, const AttentionImplementation& passes);

  const std::deque<CallOutput>& outputs() const { return outputs_; }
  // Null when it was not asked for.
  const CallOutput* Find(const std::string& name) const;

 private:
  void RunForward(const AttentionImplementation& passes);
  void RunBackward();
  void RunRowPasses(const AttentionImplementation& passes);
  void RunMapPasses(const AttentionImplementation& passes);
  void RunGram();

  TensorView Add(const std::string& name, DType type,
                 const std::vector<int64_t>& shape, Measure measure,
                 int head_axis);
  // As Add, or null, by chance.
  TensorView MayAdd(const std::string& name, DType type,
                    const std::vector<int64_t>& shape, Measure measure,
                    int head_axis);
  void AddRowStatistics(Observation& o);
  void AddSums(Observation& o);

  const RandomProblem& r_;
  Context context_;
  Rng rng_;
  AttentionArgs args_;
  Observation observation_;
  std::deque<CallOutput> outputs_;
};

}  // namespace headwise
