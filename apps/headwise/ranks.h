// The processes of one command under mpirun or srun. Rank 0 prints and writes;
// the others are silent, unless they fail alone.
#pragma once

#include "command.h"
#include "headwise/work_group.h"

namespace headwise {

// Before anything is printed: silences all ranks but the first.
void PrepareRanks();

bool IsFirstRank();

// The ranks that this command shares its work with; this process alone, without
// a launcher.
WorkGroup& RankGroup();

// Joins the other ranks. Throws UsageError for a command that does not share
// its work, and Error for a build without MPI (several copies would do the same
// work and fight over the same files) and where the ranks run unlike things.
// app: the command's, parsed.
void JoinRanks(const Command& command, const CLI::App& app);

// The program ends with this code. Waits for the other ranks, or ends them
// where this one failed.
int LeaveRanks(int code);

// Threads of each rank where none are asked for: its share of the machine's. 0
// without a launcher.
int ThreadsOfRank();

// Throws UsageError for standard input, which only the first rank has.
void RequireFiles(const std::vector<std::string>& texts);

}  // namespace headwise
