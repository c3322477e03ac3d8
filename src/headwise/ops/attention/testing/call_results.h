// Everything that calls over one random problem write: poisoned before, and in
// the layout that the problem's seed says, so that two runs can be compared bit
// by bit. Test only.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/call.h"
#include "headwise/ops/attention/testing/device_mirror.h"
#include "headwise/ops/attention/testing/random_problem.h"
#include "headwise/ops/attention/testing/test_tensor.h"

namespace headwise {

// How an output is compared with the reference's.
enum class Measure { kOutput, kStatistic, kGradient, kArgmax, kSums };

struct CallOutput {
  std::string name;
  TestTensor tensor;
  Measure measure;
  int head_axis;  // −1: written whatever heads are active
};

// Where an entry of the list runs, by its name.
Device DeviceOf(const std::string& implementation);

class CallResults {
 public:
  // Runs these passes, the forward always, by the named implementation, in the
  // memory of its device; the outputs are then here. Which
  // optional outputs are asked for is drawn from the problem's seed. Heads are
  // padded to a multiple of `head_multiple`; 0: as the operator does.
  CallResults(const RandomProblem& problem, const std::string& implementation,
              int threads, std::set<AttentionPass> passes,
              int64_t head_multiple = 0);

  const std::deque<CallOutput>& outputs() const { return outputs_; }
  // Null when it was not asked for.
  const CallOutput* Find(const std::string& name) const;

 private:
  void RunForward();
  void RunBackward();
  void RunRowPasses();
  void RunMapPasses();
  void RunGram();

  void Forward(const AttentionProblem& problem, const AttentionArgs& args);
  bool Has(AttentionPass pass) const { return passes_.contains(pass); }
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
  std::set<AttentionPass> passes_;
  int64_t head_multiple_;
  Context context_;
  AttentionProblem problem_;  // r_'s, on the context's device
  DeviceMirror mirror_;
  Rng rng_;
  AttentionArgs args_;
  Observation observation_;
  std::deque<CallOutput> outputs_;
};

}  // namespace headwise
