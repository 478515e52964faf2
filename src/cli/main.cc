#include "cli/verb.h"

int main(int argc, char** argv) { return evoq::RunCommandLine(argc, argv); }
