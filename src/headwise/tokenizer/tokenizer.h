// The door of the folder: the public header, and what files say of <bos>.
#pragma once

#include "headwise/tokenizer.h"
#include "headwise/tokenizer/bos.h"
