# Shortcuts; cmake and the scripts in tools/ do the work.
.PHONY: demo test bench bench-peers sanitize asan tsan gcc mutate format

demo:
	tools/demo.sh
test:
	tools/test.sh
bench:
	tools/setup.sh --test
	cmake --preset release
	cmake --build --preset release
	for b in build/release/evoq_*_bench; do $$b --benchmark_min_time=0.1; done
bench-peers:
	tools/bench_peers.sh
sanitize:
	tools/sanitize.sh
asan:
	tools/sanitize.sh asan-ubsan
tsan:
	tools/sanitize.sh tsan
gcc:
	cmake --preset gcc && cmake --build --preset gcc && tools/run_tests.py build/gcc
mutate:
	tools/mutate.py --changed
format:
	git ls-files '*.cc' '*.h' | xargs clang-format-19 -i
	build/venv/bin/python -m ruff format
