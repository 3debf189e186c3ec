"""The page of `hakmem report`: one HTML file that shows a program's memory and needs nothing else."""
