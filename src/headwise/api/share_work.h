// The program's ranks (dist/group.h). Not public: a group is made by the
// program alone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/dist/group.h"
#include "headwise/model.h"
#include "headwise/train.h"

namespace headwise {

// From now on profiles, likeness, rankings and reports of the model are worked
// out by all ranks of a group together, each of which calls for the same. The
// first gets the result, of the others' nothing may be used. `group` must
// outlive the model. A collective call; throws Error(kInvalidArgument) where
// the ranks' models, tokenizers or types differ.
void ShareWork(Transformer& model, dist::Group& group);

// Train, each step shared by all ranks of a group. The first writes. timeline:
// the file for the times of the first steps (train/timeline.h); empty: none.
TrainOutcome TrainShared(const TrainJob& job, dist::Group& group,
                         const std::filesystem::path& timeline = {});

// What these files, and those below these folders, hold: equal where their
// contents are, wherever a rank has its copy. Names a path that is not there.
std::string DescribeFiles(const std::vector<std::string>& paths);

}  // namespace headwise
