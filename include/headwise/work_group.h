// Processes that share the work of one program, started by mpirun or srun: each
// opens its model, shares it, and makes the same calls.
//
//   headwise::WorkGroup group(headwise::FindLaunch());
//   headwise::Transformer model("models/gpt2");
//   headwise::ShareWork(model, group);
//   auto ranking = headwise::RankHeads(model, text);
//   if (group.is_first()) Print(ranking);
//   group.Leave();
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/export.h"

namespace headwise {

class Transformer;  // model.h
namespace dist {
class Group;
}

/// This process among those of its launcher.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_size = 1;         ///< processes on this machine
  std::string launcher = {};  ///< "mpirun"; empty: none

  friend bool operator==(const Launch&, const Launch&) = default;
};

/// By the variables of OpenMPI, of PMI (MPICH, Slurm) and of Slurm's steps; one
/// process where none of them makes sense.
HEADWISE_API Launch FindLaunch();

/// Something that all ranks must have in common.
struct RunField {
  std::string name = {};   ///< "--context", "model"
  std::string value = {};  ///< readable text; a hash where it is long
};

/// The ranks of a program. One thread at a time; every rank makes the same
/// calls in the same order. A call that waits throws Error(kIo) naming the rank
/// that has ended, or has sent nothing for too long.
class HEADWISE_API WorkGroup {
 public:
  /// This process alone.
  WorkGroup();
  /// All processes of the launcher, by OpenMPI's library, which is loaded here.
  /// Throws Error(kUnsupported) for several in a build without it, where the
  /// library is not there, and where the launcher is of another MPI.
  explicit WorkGroup(const Launch& launch);
  ~WorkGroup();
  WorkGroup(WorkGroup&&) noexcept;
  WorkGroup& operator=(WorkGroup&&) noexcept;

  int rank() const;
  int size() const;
  /// The one that gets results, prints and writes.
  bool is_first() const { return rank() == 0; }

  /// Throws Error(kInvalidArgument), the same on every rank, where a field is
  /// not the same on all of them: it names the first fields that differ, and
  /// which rank has what.
  void RequireSame(std::span<const RunField> fields);
  /// Waits for all ranks.
  void Barrier();
  /// The last call: waits until all ranks are here and all messages are gone.
  void Leave();
  /// Ends every rank at once with this exit code. Returns where it is alone.
  void Abort(int code) noexcept;

  /// For the library.
  dist::Group& group() { return *group_; }

 private:
  std::unique_ptr<dist::Group> group_;
};

/// From now on all ranks work together on profiles, similarities, rankings,
/// evaluations and reports of the model. The first gets the result; results of
/// the others must not be used. `group` must outlive the model. Throws
/// Error(kInvalidArgument) where the ranks' models, tokenizers or types differ.
/// Training is shared by TrainJob::group.
HEADWISE_API void ShareWork(Transformer& model, WorkGroup& group);

/// A text that is equal where the contents of these files, and of those below
/// these folders, are, wherever a rank has its copy. Names a path that is not
/// there.
HEADWISE_API std::string DescribeFiles(const std::vector<std::string>& paths);

}  // namespace headwise
