# Read by every shell of a tutorial: kernels ask programs for colours, which a page cannot show.
unset FORCE_COLOR CLICOLOR_FORCE CLICOLOR
export COLUMNS=100
