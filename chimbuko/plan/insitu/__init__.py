"""Places of in-situ analysis: models fitted to measured times, and predictions of a whole workflow.

May import nothing of ours.
It begins in ``fitting.fit`` and ``advice.advise``; ``reading`` and ``plots`` alone touch files. After "A
Performance Model of In-Situ Techniques" (Ju et al.), whose equations are numbered here as there.
"""
