# For scripts that source the Ascend tool kit's set_env.sh (docs/ascend.md): evoq's programs need no
# environment, so there is nothing to set.
